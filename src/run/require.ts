import { missOf, noneAnswered } from '../account/require.js';
import { rejectedFiles } from '../resume/output-files.js';
import type { FinishingStep } from './step.js';

/** Scheduled runs end unattended: an output below the job's requirements does not replace a good one. */
export const requireStep: FinishingStep = {
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
