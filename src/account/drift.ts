import * as z from 'zod';
import { count, counted, percent } from '../figures.js';
import type { Fault } from '../model.js';
import { marked } from '../output/output-name.js';
import { shellWord } from '../shell-word.js';
import { amount, type DeepReadonly, words } from './untrusted.js';

const share = z.number().transform((value) => Math.min(Math.max(0, value), 1));

/** What came of `drift`: how many answers are others than in the last run. */
export const driftSchema = z.object({
  /** The run that it was compared with. */
  against: words,
  /** Its output; where this is that of the run itself, it was replaced, and a copy kept where the alarm was raised. */
  output: words,
  /** Rows that both have, and that neither has as failed or skipped. */
  rows: amount,
  /** Those of them that have another answer. */
  changed: amount,
  /** `changed / rows`; `null` without rows. */
  share: share.nullable(),
  /** The share above which the run ends with exit code 4. */
  alarm: share,
});

export type Drift = DeepReadonly<z.output<typeof driftSchema>>;

/** `12.3 % of 4,000 rows have another answer than in run 20261122-020000-abcdef, and drift.alarm is 10 %` */
export function driftText({ against, rows, changed, alarm }: Drift): string {
  const alarmed = `drift.alarm is ${Number((alarm * 100).toFixed(6))} %`;
  if (rows === 0) return `run ${against} has none of the answered rows, and ${alarmed}`;
  return (
    `${percent(changed, rows)} of ${counted(rows, 'row')} (${count(changed)}) ${changed === 1 ? 'has' : 'have'} another answer than in ` +
    `run ${against}, and ${alarmed}`
  );
}

/**
 * That more answers have changed than the job allows; null where they have not.
 * @param output that of the run
 * @param id column that tells rows; `null` for their numbers
 */
export function driftMiss(drift: Drift, output: string, id: string | null): Fault | null {
  if (drift.share === null || drift.share <= drift.alarm) return null;
  const by = id === null ? '' : ` --by ${shellWord(id)}`;
  const before = drift.output === output ? marked(output, 'measure') : drift.output;
  const compare = `promptmill compare ${shellWord(before)} ${shellWord(output)}${by}`;
  return { code: 'drifted', message: `${driftText(drift)}. What changed: ${compare}` };
}
