import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { summarise, summaryText } from '../src/account/summary.js';
import { emptyTally, fold } from '../src/account/tally.js';
import { advanced, beginTimeline } from '../src/account/timeline.js';
import { readEnvironment } from '../src/config/environment.js';
import { jobSchema } from '../src/config/job-schema.js';
import { settle } from '../src/config/settings.js';
import type { Outcome } from '../src/core/model.js';
import { writtenOf } from '../src/output/written.js';
import { planRows } from '../src/run/plan.js';
import { csv } from '../src/source/csv.js';
import { metered } from './meter.js';

/**
 * Time and peak memory of `promptmill report` over an output that is made for it, in CSV and in JSONL.
 *
 *   npm run bench:report -- [--rows 1000000]
 */
const { values } = parseArgs({ options: { rows: { type: 'string', default: '1000000' } } });
const ROWS = Number(values.rows);
const BATCH = 2_000;
const CLI = join(import.meta.dirname, '../dist/cli.js');
const LABELS = ['positive', 'negative', 'neutral'];
const OPINION = 'It works well, though the strap is shorter than in the picture. Would buy again.';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-report-'));
try {
  for (const ending of ['csv', 'jsonl']) {
    const output = await makeOutput(join(folder, `out.${ending}`));
    for (const form of ['--html', '--markdown']) {
      const page = join(folder, `report${form}`);
      const { seconds, peak_bytes } = await metered({
        args: [CLI, 'report', output, form, page, '--overwrite'],
        env: {},
      });
      const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
      console.log(
        `${ending.padEnd(5)}  ${form}  ${ROWS} rows, ${mb(statSync(output).size)}  ${seconds.toFixed(1)} s  peak ${mb(peak_bytes)}  report ${mb(statSync(page).size)}`,
      );
    }
    rmSync(output);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** An output as a run writes it, and its summary beside it. */
async function makeOutput(path: string): Promise<string> {
  const job = jobSchema.parse({
    service: { deployment: 'lm-35-turbo-instruct' },
    input: { path: 'rows.csv' },
    prompt: '{{ review }}',
    answer: { labels: LABELS },
    output: { path },
  });
  const settings = settle({ ...job, name: 'report' }, readEnvironment({}, '/no/such/file'), {});
  const { header, recordOf } = await planRows(settings, {
    ...{ format: csv, rows: ROWS, badRows: 0, sha256: '0'.repeat(64), bytes: 1 },
    ...{ digests: { blockBytes: 1, bytes: Buffer.alloc(0) }, columns: ['id', 'review'] },
  });
  let tally = emptyTally();
  let timeline = beginTimeline(0, totalsOf());
  const file = createWriteStream(path);
  file.write(header);
  for (let first = 1; first <= ROWS; first += BATCH) {
    const records = Array.from({ length: Math.min(BATCH, ROWS - first + 1) }, (_, i) => {
      const number = first + i;
      const fields = new Map([
        ['id', String(number)],
        ['review', `I bought item ${number} last month. ${OPINION}`],
      ]);
      return recordOf({ number, line: number + 1, fields, bytes: 120 }, outcomeOf(number));
    });
    tally = fold(tally, records);
    timeline = advanced(timeline, (first / 1_000) * 1_000, totalsOf());
    if (!file.write(records.map(({ text }) => text).join(''))) await once(file, 'drain');
  }
  file.end();
  await once(file, 'close');
  const summary = summarise({
    ...{ run: '20261121-020000-4f9c1a', job: 'report', deployment: 'd', api_version: 'v' },
    emulated: false,
    input: { path: 'rows.csv', sha256: '0'.repeat(64), rows: ROWS },
    output: path,
    ...{ started_at: '2026-11-21T02:00:00.000Z', finished_at: '2026-11-21T03:00:00.000Z', duration_s: 3_600 },
    ...{ stopped: null, missed: null, tally, prices: null },
    calls: { sent: ROWS, retried: 0, rate_limited: 0, repeated: 0 },
    details: {
      timeline,
      settings: {},
      state: { fingerprint: {}, execution: 1, prompt_tokens: 0, completion_tokens: 0 },
      limits: {
        ...{ concurrency: 50, requests_per_minute: null, tokens_per_minute: null, prompts_per_request: 1 },
        ...{ timeout_s: 120, attempts: 6, unknown_outcome: 'retry', give_up_s: 3600, deadline_s: null },
        ...{
          budget: { tokens: null, cost: null },
          stop_after: { failures: null, abstained: null },
          canary: 0,
        },
      },
      input_bytes: 1,
      prompt: '{{ review }}',
    },
  });
  const details = { ...summary.details, written: await writtenOf(path) };
  writeFileSync(path.replace(/\.\w+$/, '.summary.json'), summaryText({ ...summary, details }));
  return path;

  function totalsOf() {
    const { rows, usage } = tally;
    return {
      ...{ rows: rows.total, failed: rows.failed, sent: rows.total, rate_limited: 0 },
      ...{ prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens },
    };
  }
}

/** One row in 100 fails, and one in 200 has an answer that is none. */
function outcomeOf(number: number): Outcome {
  if (number % 100 === 0) {
    const error = {
      code: 'server_error',
      message: 'The server had an error while it worked on the request.',
    };
    return { status: 'failed', error, attempts: 6, latency_ms: 900 };
  }
  const label = number % 200 === 1 ? 'I would rather not say' : LABELS[number % LABELS.length];
  const verdict = { filtered: false, severity: 'safe' };
  const filters = { hate: verdict, self_harm: verdict, sexual: verdict, violence: verdict };
  return {
    status: 'completed',
    completion: {
      ...{ text: ` ${label}`, finish_reason: 'stop', model: 'lm-35-turbo-instruct', id: `cmpl-${number}` },
      usage: { prompt_tokens: 60, completion_tokens: 2, total_tokens: 62 },
      created: 1_700_000_000,
    },
    filters: { prompt: filters, completion: filters },
    attempts: 1,
    latency_ms: 300 + (number % 500),
  };
}
