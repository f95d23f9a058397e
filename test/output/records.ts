import { answerReader } from '../../src/answer/answer.js';
import type { Completed, Failed, Filtered, Json, Row } from '../../src/core/model.js';

/** Rows and outcomes that the tests of the record formats share. */

export const TEXT = answerReader({ kind: 'text' });

export function csvRow(fields: Readonly<Record<string, string>>, number = 1): Row {
  return { number, line: number + 1, fields: new Map(Object.entries(fields)), bytes: 10 };
}

/** A row as the source makes it: numbers that JavaScript would spell otherwise are text already. */
export function jsonlRow(source: string, fields: readonly (readonly [string, Json])[]): Row {
  return { number: 3, line: 4, fields: new Map(fields), bytes: source.length, source };
}

export const completed: Completed = {
  status: 'completed',
  attempts: 2,
  latency_ms: 31,
  completion: {
    text: '\n Good, "really" good.',
    finish_reason: 'stop',
    usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
    model: 'lm-35-turbo-instruct',
    id: 'cmpl-1',
    created: 1_700_000_000,
  },
  filters: {
    prompt: { hate: { filtered: false, severity: 'safe' }, jailbreak: { filtered: false, detected: false } },
    completion: null,
  },
};

export const blockedPrompt: Filtered = {
  status: 'filtered',
  attempts: 1,
  latency_ms: 9,
  completion: null,
  filters: { prompt: null, completion: null },
  error: { code: 'content_filter', message: 'The prompt was blocked.' },
};

export const failed: Failed = {
  status: 'failed',
  attempts: 0,
  latency_ms: null,
  error: { code: 'ragged_record', message: 'line 2 has 3 values, the header has 2' },
};
