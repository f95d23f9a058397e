import { afterEach, beforeEach, expect, it } from 'vitest';
import './figures.js';
import { Kills, withoutTimes } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 1_000;
const CONCURRENCY = 10;
const KILLS = 2;
const AGAIN = 2;
const TOKENS = { prompt_tokens: 10, completion_tokens: 1 };
const EACH = TOKENS.prompt_tokens + TOKENS.completion_tokens;
/** No call is reserved with more tokens. */
const MOST = 40;

/** Every tenth row has a first answer that does not fit, and every hundredth has no other. */
const CALLS = ROWS + ROWS / 10 + ROWS / 100;

describeOn('embedded', 'a run whose answers do not fit, and that is killed', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(async ({ prompt }) => {
      const row = Number(/row (\d+):/.exec(prompt)?.[1]);
      await kills.called(row === ROWS - 1);
      const isRight = row % 10 !== 0 || (row % 100 !== 0 && prompt.startsWith('again'));
      return { json: completionBody({ text: isRight ? ' yes' : ' maybe', ...TOKENS }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 40: twice, asks no row more often than it should but for calls in flight, and holds its budget', async ({
    task,
  }) => {
    const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
    const unknown = KILLS * unknownAfter(CONCURRENCY);
    const job = {
      input: { path: work.rows(ROWS) },
      prompt: 'row {{ id }}: {{ note }}',
      parameters: { max_tokens: 1 },
      answer: {
        labels: ['yes', 'no'],
        on_invalid: { ask_again: AGAIN, prompt: 'again, {{ answer }}: {{ prompt }}' },
      },
      // Enough only if a row that is asked again leaves nothing reserved.
      limits: { concurrency: CONCURRENCY, budget: { tokens: CALLS * EACH + unknown * MOST } },
    };
    const undisturbed = await work.call(['run', work.job({ ...job, output: { path: 'whole.csv' } })], env);
    expect(undisturbed.code, undisturbed.stderr).toBe(0);
    expect(service.requests).toHaveLength(CALLS);

    const path = work.job({ ...job, output: { path: 'out.csv' } });
    await kills.run({ work, service }, ['run', path], env, { kills: KILLS, calls: CALLS - 100 });
    const finished = await work.call(['run', path], env);

    expect(finished.code, finished.stderr).toBe(0);
    expect(withoutTimes(work.records('out.csv'))).toEqual(withoutTimes(work.records('whole.csv')));
    const requests = service.requests.slice(CALLS);
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({
      rows: { total: ROWS, completed: ROWS },
      answers_invalid: ROWS / 100,
      answer_sources: { read: ROWS - ROWS / 10, asked_again: ROWS / 10 - ROWS / 100 },
      usage: { total_tokens: CALLS * EACH },
    });
    const { repeated } = summary['calls'] as { repeated: number };
    task.meta.fault = { rows: ROWS, calls: requests.length, repeated };
    expect(requests.length).toBeLessThanOrEqual(CALLS + unknown);
    expect(repeated).toBeGreaterThanOrEqual(requests.length - CALLS);
    expect(repeated).toBeLessThanOrEqual(unknown);
    const asked = new Map<string, number>();
    for (const { prompt } of requests) {
      const row = /row \d+:/.exec(prompt)?.[0] ?? '';
      asked.set(row, (asked.get(row) ?? 0) + 1);
    }
    expect(asked.size).toBe(ROWS);
    expect(Math.max(...asked.values())).toBeLessThanOrEqual(1 + AGAIN + KILLS);
  });
});
