import * as z from 'zod';
import { count, counted, percent } from '../core/figures.js';
import type { Problem } from '../core/model.js';
import { shellWord } from '../core/started.js';
import { marked } from '../output/output-name.js';
import { amount, type DeepReadonly, words } from './untrusted.js';

const share = z.number().transform((value) => Math.min(Math.max(0, value), 1));

export const driftSchema = z.object({
  /** Id of the last run. */
  against: words,
  /** Its output. If this run replaced it, a copy is kept when the alarm is raised. */
  output: words,
  /** Rows in both outputs, neither failed nor skipped in either. */
  rows: amount,
  /** Of these, rows whose answer differs. */
  changed: amount,
  /** `changed / rows`; `null` without rows. */
  share: share.nullable(),
  /** The run ends with exit code 4 above this share. */
  alarm: share,
});

export type Drift = DeepReadonly<z.output<typeof driftSchema>>;

/** `12.3 % of 4,000 rows have another answer than in run 20261122-020000-abcdef, and drift.alarm is 10 %` */
export function driftText({ against, rows, changed, alarm }: Drift): string {
  const alarmed = `drift.alarm is ${Number((alarm * 100).toFixed(6))} %`;
  if (rows === 0)
    return `run ${against} and this one have no row that is completed or filtered in both, and ${alarmed}`;
  return (
    `${percent(changed, rows)} of ${counted(rows, 'row')} (${count(changed)}) ${changed === 1 ? 'has' : 'have'} another answer than in ` +
    `run ${against}, and ${alarmed}`
  );
}

/** Null while `drift.alarm` is not exceeded. @param id column that identifies rows; `null`: their numbers */
export function driftMiss(drift: Drift, output: string, id: string | null): Problem | null {
  if (drift.share === null || drift.share <= drift.alarm) return null;
  const by = id === null ? '' : ` --by ${shellWord(id)}`;
  const before = drift.output === output ? marked(output, 'measure') : drift.output;
  const compare = `promptmill compare ${shellWord(before)} ${shellWord(output)}${by}`;
  return { code: 'drifted', message: `${driftText(drift)}. What changed: ${compare}` };
}
