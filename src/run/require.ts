import { missOf, noneAnswered } from '../account/require.js';
import { rejectedFiles } from '../resume/output-files.js';
import type { FinishingStep } from './step.js';

/** Nobody looks at a scheduled run when it ends: what is below what its job asks does not take the place of what is good. */
export const requireStep: FinishingStep = {
  name: 'require',
  async run({ committer, settings: { scheduled, require } }) {
    const { tally, steps } = committer.manifest;
    if (!scheduled || require === null || committer.files === null) return true;
    const missed =
      missOf(tally, require) === null ? noneAnswered(tally) : missOf(tally, require, steps.abstain, '');
    if (missed === null) return true;
    const { output } = rejectedFiles(committer.files);
    await committer.reject({
      ...missed,
      message: `${missed.message} The output is rejected: it is named ${output}.`,
    });
    return true;
  },
};
