import { ConfidenceCurve } from '../account/abstention.js';
import { invalidOf, LEAST_ANSWERED } from '../account/require.js';
import { AbstainingTally } from '../account/tally.js';
import type { Gold } from '../answer/gold.js';
import { recordOptions } from '../config/settings.js';
import { type OutputRecord, readOutput } from '../output/reader.js';
import type { Part } from '../output/result-columns.js';
import { type Change, rewritten } from '../output/rewrite.js';
import type { Finishing, FinishingStep } from './step.js';

/**
 * `answer.abstain`: finds the threshold on the rows with gold, and rewrites the output without the labels
 * below it. Depends on the part file only, so after a crash the next execution just repeats it.
 */
export const abstainStep: FinishingStep = { run: abstain };

async function abstain({ committer, whole, settings, format }: Finishing): Promise<boolean> {
  const { answer: spec, gold: column, output } = settings;
  if (spec.kind !== 'labels' || spec.abstainFor === undefined || column === null) return true;
  const bytes = whole.part();
  if (bytes === null) return true;
  const written = { name: 'the output', format: output.format, bytes };
  const job = { ...recordOptions(settings), inputs: format.inputs };
  const goldOf = (record: OutputRecord): Gold | null => {
    const gold = record.gold(column);
    return typeof gold === 'object' ? gold : null;
  };

  const curve = new ConfidenceCurve();
  for await (const records of readOutput(written, job)) {
    for (const record of records) {
      const right = record.label === null ? null : goldOf(record);
      if (right?.kind === 'label') curve.add(record.sureness, record.label === right.label);
    }
  }
  const asked = spec.abstainFor;
  const all = curve.at(0);
  const found = curve.lowest(asked, LEAST_ANSWERED);
  const threshold = found?.threshold ?? 0;

  const before = committer.manifest.tally;
  const tally = new AbstainingTally(before);
  const change = (record: OutputRecord): Change => {
    const { label, number } = record;
    if (label === null) return null;
    const gold = goldOf(record);
    if (record.sureness >= threshold) {
      tally.addExample(label, gold, number);
      return null;
    }
    tally.abstain(label, gold, number, record.answerSource);
    return leftOut;
  };
  const leftOut = format.values(ABSTAINING, { values: [null], counted: [], problem: null, abstained: true });
  if (threshold > 0) await whole.rewrite(rewritten(written, change, job));
  const { rows, abstained = 0 } = tally.toTally();
  const abstention = {
    asked,
    threshold: found && threshold,
    rows: all.answered,
    ...{ answered: found?.answered ?? all.answered, accuracy: (found ?? all).accuracy },
    coverage: rows.completed === 0 ? 0 : (rows.completed - invalidOf(before) - abstained) / rows.completed,
  };
  await committer.note({ abstain: abstention }, tally.toTally());
  return true;
}

const ABSTAINING: ReadonlySet<Part> = new Set<Part>(['answer', 'abstained']);
