import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Summary, summarise } from '../../src/account/summary.js';
import { type CountedRow, emptyTally, fold } from '../../src/account/tally.js';
import { beginTimeline } from '../../src/account/timeline.js';
import { answerReader } from '../../src/answer/answer.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import { NO_CALLS } from '../../src/core/counters.js';
import type { Outcome, Row } from '../../src/core/model.js';
import { outputFormatOf, recordFormat } from '../../src/output/format.js';
import { leaveSummary } from '../support/written.js';

/** What becomes of a row: the text of its completion, or how else it ended. */
type Ends = string | 'failed!' | 'filtered!' | 'skipped!';

interface Written {
  readonly answer?: AnswerSpec;
  /** Which input the summary names. */
  readonly input?: string;
  readonly job?: string;
  /** @default a summary is beside the output */
  readonly summary?: boolean | object;
  readonly columns?: readonly string[];
  readonly formulas?: 'protect' | 'raw';
  /** Further columns of the input. */
  readonly fields?: (id: string) => Readonly<Record<string, string>>;
}

const LABELS: AnswerSpec = { kind: 'labels', labels: ['good', 'bad', 'fair'] };

/** Finished outputs without runs. */
export class Outputs {
  readonly folder = mkdtempSync(join(tmpdir(), 'promptmill-compare-test-'));

  path(name: string): string {
    return join(this.folder, name);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** @param rows id and end of each */
  write(name: string, rows: readonly (readonly [id: string, ends: Ends])[], how: Written = {}): string {
    const { answer = LABELS, summary = true, job = 'reviews', input = 'same', formulas = 'protect' } = how;
    const { columns: select, fields: more = () => ({}) } = how;
    const reader = answerReader(answer);
    const path = this.path(name);
    const format = outputFormatOf(name);
    const inputColumns = ['id', ...Object.keys(more(''))];
    const records = recordFormat({ format, inputColumns, answer: reader, select, formulas });
    const ended = rows.map(([, ends]) => {
      const outcome = outcomeOf(ends);
      const { completion = null } = 'completion' in outcome ? outcome : {};
      return { outcome, answer: completion && reader.read(completion) };
    });
    const lines = ended.map(({ outcome, answer }, i) => {
      const id = rows[i]?.[0] ?? '';
      const fields = new Map(Object.entries({ id, ...more(id) }));
      const row: Row = { number: i + 1, line: i + 2, fields, bytes: 10 };
      return records.format(row, outcome, answer);
    });
    const text = records.header + lines.join('');
    writeFileSync(path, name.endsWith('.gz') ? gzipSync(text) : text);
    if (summary === false) return path;
    const settings = {
      answer: JSON.stringify(answer),
      output: JSON.stringify([format.name, null, formulas]),
    };
    const written = { ...summaryOf(path, job, input, settings, ended), ...Object(summary) };
    leaveSummary(path, written);
    return path;
  }
}

const NOTHING = { rows: 0, failed: 0, prompt_tokens: 0, completion_tokens: 0, sent: 0, rate_limited: 0 };

function summaryOf(
  output: string,
  job: string,
  input: string,
  settings: Record<string, string>,
  ended: readonly CountedRow[],
): Summary {
  const at = '2026-11-21T02:00:00Z';
  return summarise({
    ...{ run: '20261121-020000-aaaaaa', job, deployment: 'd', api_version: 'v' },
    emulated: false,
    ...{
      input: { path: 'in.csv', sha256: input, rows: ended.length },
      output,
      started_at: at,
      finished_at: at,
    },
    ...{ duration_s: 1, stopped: null, missed: null, calls: NO_CALLS },
    tally: fold(emptyTally(), ended),
    prices: { prompt: 1, completion: 2 },
    details: {
      ...{ timeline: beginTimeline(0, NOTHING), settings, input_bytes: 1, prompt: null },
      state: { fingerprint: {}, execution: 1, prompt_tokens: 0, completion_tokens: 0 },
      limits: {
        concurrency: 1,
        requests_per_minute: null,
        tokens_per_minute: null,
        ...{ prompts_per_request: 1, timeout_s: 120, attempts: 6, unknown_outcome: 'retry' },
        ...{ budget: { tokens: null, cost: null }, give_up_s: 3600, deadline_s: null },
        ...{ stop_after: { failures: null, abstained: null }, canary: 0 },
      },
    },
  });
}

function outcomeOf(ends: Ends): Outcome {
  const called = { attempts: 1, latency_ms: 20 };
  const filters = { prompt: null, completion: null };
  const error = { code: 'content_filter', message: 'blocked' };
  if (ends === 'skipped!') return { status: 'skipped' };
  if (ends === 'failed!') return { status: 'failed', error: { code: 'timeout', message: 'late' }, ...called };
  if (ends === 'filtered!') return { status: 'filtered', completion: null, filters, error, ...called };
  const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
  const completion = { text: ends, finish_reason: 'stop', usage, model: null, id: null, created: null };
  return { status: 'completed', completion, filters, ...called };
}
