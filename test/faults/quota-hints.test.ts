import { afterAll, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedReply, startScriptedService } from '../support/scripted-service.js';

function refusal(headers: Readonly<Record<string, string>>, message = 'slow down'): ScriptedReply {
  return { status: 429, headers, json: { error: { code: '429', message } } };
}

/** What the service says to the rows 1, 2, 3 …, and how long it then wants to be left alone, in milliseconds. */
const HINTS: readonly (readonly [form: string, reply: (now: number) => ScriptedReply, leastMs: number])[] = [
  ['seconds', () => refusal({ 'retry-after': '2' }), 2_000],
  ['milliseconds', () => refusal({ 'retry-after-ms': '1700' }), 1_700],
  ['milliseconds beside seconds', () => refusal({ 'retry-after-ms': '1700', 'retry-after': '1' }), 1_700],
  // A date has whole seconds: this one is between two and three seconds ahead.
  ['a date', (now) => refusal({ 'retry-after': new Date(now + 3_000).toUTCString() }), 2_000],
  ['a date that is past', (now) => refusal({ 'retry-after': new Date(now - 60_000).toUTCString() }), 1_000],
  ['words', () => refusal({}, 'Rate limit is exceeded. Try again in 2 seconds.'), 2_000],
  ['none', () => refusal({}), 1_000],
];

const work = new Workplace();
afterAll(() => work.remove());

it('fault 17: after a 429 no call of any row is made sooner than the service asked, in whatever form', async ({
  task,
}) => {
  const arrivals: number[] = [];
  /** The arrival that each hint refused; chunks that waited may come back in any order. */
  const refusals = new Map<(typeof HINTS)[number], number>();
  const service = await startScriptedService(({ prompt, count }) => {
    arrivals.push(performance.now());
    const hint = HINTS[Number(prompt.split(' ')[1]) - 1];
    if (hint === undefined || count > 1) return {};
    refusals.set(hint, arrivals.length - 1);
    return hint[1](Date.now());
  });
  try {
    const rows = HINTS.length + 3;
    const job = work.job({
      input: { path: work.rows(rows) },
      output: { path: 'out.csv' },
      // One call at a time: of the calls beside a refused one some may be on their way already.
      limits: { concurrency: 1, chunk_size: 2, attempts: 1 },
    });
    const { code, stderr } = await work.call(['run', job], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(0);
    expect(work.records('out.csv').every(({ status }) => status === 'completed')).toBe(true);
    expect(arrivals.length).toBe(rows + HINTS.length);
    expect(refusals.size).toBe(HINTS.length);
    for (const [[form, , leastMs], at] of refusals) {
      const waited = (arrivals[at + 1] ?? 0) - (arrivals[at] ?? 0);
      // A lower bound alone: a busy machine may be late, and nobody may be early.
      expect(waited, form).toBeGreaterThanOrEqual(leastMs);
    }
    task.meta.fault = { rows, calls: service.requests.length };
  } finally {
    await service.close();
  }
});
