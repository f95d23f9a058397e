import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedReply, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const ROWS = 40;
const LARGER = 'lm-larger';

// That each store keeps them is shown by `store/interim.test.ts`, and under kills by `faults/asked-again.test.ts`.
describe('answers that do not fit', () => {
  const store = oneStore();
  let place: MemoryPlace;
  let work: Workplace;
  /** How often the larger deployment refuses, and how. */
  let refusals = 0;
  let refusal: ScriptedReply;

  /**
   * Every tenth row is never right here, and right with the larger deployment; every fifth is right when asked again.
   */
  beforeEach(() => {
    place = new MemoryPlace();
    work = place.work;
    refusals = 0;
    refusal = { status: 429, headers: { 'retry-after': '1' } };
    place.script = ({ prompt, url }) => {
      if (url.includes(LARGER) && refusals-- > 0) return refusal;
      const row = Number(/row (\d+)/.exec(prompt)?.[1]);
      const isAgain = prompt.startsWith('again');
      const isRight = row % 5 !== 0 || (row % 10 !== 0 && isAgain) || url.includes(LARGER);
      return {
        json: completionBody({ text: isRight ? ' yes' : ' maybe', prompt_tokens: 10, completion_tokens: 1 }),
      };
    };
  });
  afterEach(() => work.remove());

  const written = (onInvalid: object, more: object = {}): string =>
    work.job({
      input: { path: work.rows(ROWS) },
      prompt: 'row {{ id }}',
      answer: {
        labels: ['yes', 'no'],
        on_invalid: { ask_again: 2, prompt: 'again, {{ answer }}: {{ prompt }}', ...onInvalid },
      },
      output: { path: 'out.csv' },
      limits: { concurrency: 8 },
      ...more,
    });
  const run = (onInvalid: object, more: object = {}) => place.run(written(onInvalid, more));
  const record = (row: number) => work.records('out.csv')[row - 1];

  it('are asked for again, as often as the job says, and each call counts', async () => {
    const service = await startScriptedService(place.script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const { code, stderr } = await work.call(['run', written({})], env);
    await service.close();
    expect(code, stderr).toBe(0);
    expect(record(1)).toMatchObject({ answer_source: 'read', attempts: '1', total_tokens: '11' });
    expect(record(5)).toMatchObject({ answer_source: 'asked_again', attempts: '2', total_tokens: '22' });
    expect(record(10)).toMatchObject({ answer: '', attempts: '3', total_tokens: '33' });
    expect(service.calls('again, maybe: row 5')).toBe(1);
    expect(service.calls('again, maybe: row 10')).toBe(2);
    const calls = ROWS + 4 + 2 * 4;
    expect(service.requests).toHaveLength(calls);
    expect(work.json('out.summary.json')).toMatchObject({
      ...{ answers_invalid: 4, usage: { total_tokens: 11 * calls } },
      answer_sources: { read: 32, asked_again: 4 },
      calls: { sent: calls, retried: 0, repeated: 0 },
    });
  });

  it('are asked of another deployment last, whose pauses hold up nothing else', async () => {
    refusals = 1;
    const { code, said } = await run({ ask_again: 1, deployment: LARGER });
    expect(code, said).toBe(0);
    expect(record(10)).toMatchObject({ answer_source: 'escalated', attempts: '3', total_tokens: '33' });
    const larger = place.machine.requests.filter(({ url }) => url.includes(LARGER));
    expect([...new Set(larger.map(({ prompt }) => prompt))].sort()).toEqual([
      'row 10',
      'row 20',
      'row 30',
      'row 40',
    ]);
    expect(larger).toHaveLength(5);
    expect(work.json('out.summary.json')).toMatchObject({
      ...{ answers_invalid: 0, calls: { rate_limited: 1 } },
      answer_sources: { read: 32, asked_again: 4, escalated: 4 },
    });
  });

  it('are asked of no deployment that is not there: the run stops and says which', async () => {
    refusals = Number.POSITIVE_INFINITY;
    refusal = { status: 404, json: { error: { code: 'DeploymentNotFound', message: 'It does not exist.' } } };
    const { code, said, shown } = await run({ ask_again: 0, prompt: undefined, deployment: LARGER });
    expect(code, said).toBe(3);
    expect(shown).toMatch(/deployment_not_found: lm-larger: It does not exist/);
  });

  it('are asked for again within the budget: the run stops before it is passed, and goes on where it was', async () => {
    const budget = (tokens: number) => ({ limits: { concurrency: 8, budget: { tokens } } });
    const needed = 11 * (ROWS + 4 + 2 * 4);
    const stopped = await run({}, budget(needed - 100));
    expect(stopped.code, stopped.said).toBe(3);
    expect(11 * place.machine.requests.length).toBeLessThanOrEqual(needed - 100);
    const { code, said } = await run({}, budget(2 * needed));
    expect(code, said).toBe(0);
    expect(place.machine.requests).toHaveLength(needed / 11);
    expect(record(5)).toMatchObject({ answer_source: 'asked_again', attempts: '2', total_tokens: '22' });
  });
});
