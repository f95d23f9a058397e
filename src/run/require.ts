import { driftMiss } from '../account/drift.js';
import { bothMissed, missOf, noneAnswered } from '../account/require.js';
import type { Settings } from '../config/settings.js';
import type { Problem } from '../core/model.js';
import { copyForDrift, lastRunOf } from '../resume/last-run.js';
import type { Manifest } from '../resume/manifest.js';
import { rejectedFiles } from '../resume/output-files.js';
import { driftNow } from './drift.js';
import type { FinishingStep } from './step.js';

/** Scheduled runs end unattended: an output below the job's requirements does not replace a good one. */
export const requireStep: FinishingStep = {
  async run({ committer, settings: { scheduled, require } }) {
    const { tally, steps } = committer.manifest;
    if (!scheduled || require === null || committer.files === null || steps.require) return true;
    const missed =
      missOf(tally, require) === null ? noneAnswered(tally) : missOf(tally, require, steps.abstain, '');
    if (missed === null) return true;
    const { output } = rejectedFiles(committer.files);
    const message = `${missed.message} The output is rejected: it is named ${output}.`;
    await committer.note({ require: { ...missed, message } });
    return true;
  },
};

/** Keeps the good output that one below the requirements is about to replace: drift is measured against it. */
export const measureStep: FinishingStep = {
  async run({ committer, settings }) {
    const { manifest, files } = committer;
    if (settings.drift === null || files === null || missedBy(settings, manifest, files.output) === null)
      return true;
    const good = lastRunOf(settings, manifest.run, true);
    if (good?.output === files.output) await copyForDrift(good);
    return true;
  },
};

/** What a run with all of its rows misses of the requirements of its job. */
export function missedBy(
  settings: Settings,
  { tally, steps }: Pick<Manifest, 'tally' | 'steps'>,
  output: string,
): Problem | null {
  const drift = driftNow(steps, settings);
  return bothMissed(
    steps.require ?? missOf(tally, settings.require, steps.abstain),
    drift && driftMiss(drift, output, settings.reuse.id),
  );
}
