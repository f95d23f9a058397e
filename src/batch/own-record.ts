import { UsageError } from '../core/errors.js';
import { isObject, valueText } from '../core/json.js';
import type { CalledOutcome, Completion, Row, Usage } from '../core/model.js';
import { idIn } from '../output/batch.js';
import type { OutputRecord } from '../output/reader.js';

/** A record of an earlier output. */
export interface OwnRecord {
  readonly id: string | null;
  /** Null for a row that was not answered. */
  readonly outcome: CalledOutcome | null;
}

/** Null for what no run wrote. */
export function readOwnRecord(record: OutputRecord): OwnRecord | null {
  try {
    if (record.status === null) return null;
    return { id: idIn((name) => record.input(name)), outcome: answered(record) };
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}

/** Whether it is of another row than the one with its number. */
export const isOfOther = (record: OutputRecord, { fields }: Row): boolean =>
  [...fields].some(([name, value]) => {
    const then = record.input(name);
    return then !== undefined && valueText(then) !== valueText(value);
  });

function answered(record: OutputRecord): CalledOutcome | null {
  const outcome = record.outcome();
  if (outcome === null || outcome.status === 'skipped' || outcome.status === 'failed') return null;
  const { origin: _, endpoint: __, answer_source: ___, ...own } = outcome;
  const called = { attempts: 1, latency_ms: null, elsewhere: 'done' } as const;
  if (own.status === 'filtered')
    return { ...own, ...called, completion: own.completion && whole(own.completion, record) };
  const completion = whole(own.completion, record);
  // `output.columns` may leave the text out, without which the answer cannot be read again.
  const isEmpty = completion.text === null && completion.refusal === undefined;
  return isEmpty ? null : { ...own, ...called, completion };
}

/** With what is not counted. */
function whole(completion: Completion, record: OutputRecord): Completion {
  const text = (name: string): string | null => valueText(record.value(name)) || null;
  const [refusal, created] = [text('refusal'), Date.parse(text('created') ?? '')];
  return {
    ...completion,
    ...(refusal !== null && { text: null, refusal }),
    usage: completion.usage && { ...completion.usage, ...moreUsage(record) },
    ...{ model: text('model'), id: text('completion_id') },
    created: Number.isNaN(created) ? null : created / 1000,
    tier: 'done',
  };
}

function moreUsage(record: OutputRecord): Pick<Usage, 'cached_tokens' | 'reasoning_tokens'> {
  const usage = record.value('usage');
  const of = (name: string): object => {
    const value = valueText(isObject(usage) ? usage[name] : record.value(name));
    return /^\d+$/.test(value) ? { [name]: Number(value) } : {};
  };
  return { ...of('cached_tokens'), ...of('reasoning_tokens') };
}
