import { ConfidenceCurve } from '../account/abstention.js';
import { invalidOf, LEAST_ANSWERED } from '../account/require.js';
import { AbstainingTally } from '../account/tally.js';
import { type Gold, goldReader } from '../answer/gold.js';
import type { Settings } from '../config/settings.js';
import { uninert } from '../output/formula.js';
import type { RecordFormat } from '../output/record.js';
import type { Part } from '../output/result-columns.js';
import { type Change, rewritten, type StandingRecord, standingRecords } from '../output/rewrite.js';
import type { Committer } from '../resume/committer.js';

/**
 * `answer.abstain`: finds the threshold on the rows with gold, when every row is written, and writes the output anew without
 * the labels of which the model is less sure. It is a function of the part file alone, so an execution that is killed leaves
 * the next one nothing but to do it again.
 */
export async function abstain(
  committer: Committer,
  { answer: spec, gold: column, output }: Settings,
  format: RecordFormat,
): Promise<void> {
  if (spec.kind !== 'labels' || spec.abstainFor === undefined || column === null) return;
  const read = goldReader({ answer: spec, gold: column }, 'the output');
  const inputOf = format.input(column);
  const goldOf = ({ number, fields }: StandingRecord): Gold | null => {
    const cell = inputOf?.(fields) ?? null;
    return read?.({ number, line: number, fields: new Map([[column, cell]]), bytes: 0 }) ?? null;
  };
  const labelOf = ({ fields }: StandingRecord): string | null => {
    const text = fields.get('answer');
    if (fields.get('status') !== 'completed' || typeof text !== 'string' || text === '') return null;
    return output.format.hasHeader && output.formulas === 'protect' ? uninert(text) : text;
  };
  // A job without the column may have one of the same name in its input.
  const hasSource = format.parts.has('answer_source');
  const sourceOf = ({ fields }: StandingRecord): string =>
    String((hasSource ? fields.get('answer_source') : null) ?? 'read');

  const written = committer.written();
  if (written === null) return;

  const curve = new ConfidenceCurve();
  for await (const records of standingRecords(written(), output.format)) {
    for (const record of records) {
      const said = labelOf(record);
      // A record that could not be read may have any cell in the column of the gold.
      const right = said === null ? null : goldOf(record);
      if (right?.kind === 'label') curve.add(confidenceOf(record), said === right.label);
    }
  }
  const asked = spec.abstainFor;
  const all = curve.at(0);
  const found = curve.lowest(asked, LEAST_ANSWERED);
  const threshold = found?.threshold ?? 0;

  const before = committer.manifest.tally;
  const tally = new AbstainingTally(before);
  const change = (record: StandingRecord): Change => {
    const label = confidenceOf(record) < threshold ? labelOf(record) : null;
    if (label === null) return null;
    tally.abstain(label, goldOf(record), sourceOf(record));
    return leftOut;
  };
  const leftOut = format.values(ABSTAINING, { values: [null], counted: [], fault: null, abstained: true });
  if (threshold > 0) await committer.rewrite(rewritten(written(), output.format, change));
  const { rows, abstained = 0 } = tally.toTally();
  committer.abstain(tally.toTally(), {
    asked,
    threshold: found && threshold,
    rows: all.answered,
    ...{ answered: found?.answered ?? all.answered, accuracy: (found ?? all).accuracy },
    coverage: rows.completed === 0 ? 0 : (rows.completed - invalidOf(before) - abstained) / rows.completed,
  });
}

/** What changes in the record of a row that abstains. */
const ABSTAINING: ReadonlySet<Part> = new Set<Part>(['answer', 'abstained']);

/** From 0 to 1; 0 where it is not known. */
const confidenceOf = ({ fields }: StandingRecord): number => Number(fields.get('confidence') ?? 0);
