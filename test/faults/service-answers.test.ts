import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { disturbanceNamed } from '../../src/emulator/disturbance.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { SERVICES, serviceOn } from '../support/operations.js';
import { type Ended, Workplace } from '../support/promptmill.js';
import {
  completionBody,
  promptsOf,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { describeOn, type StoreUnderTest } from '../support/stores.js';

const KEY = 'a-key-for-tests-only';

type OperationName = (typeof SERVICES)[number]['operation'];

/** What says a text. */
const saying: Readonly<Record<OperationName, (text: unknown) => object>> = {
  completions: (text) => ({ text }),
  chat: (content) => ({ message: { role: 'assistant', content } }),
};
const other = ({ operation }: { readonly operation: OperationName }): OperationName =>
  operation === 'chat' ? 'completions' : 'chat';

/** What stands in the place of a text. */
const textless = (
  service: (typeof SERVICES)[number],
): readonly (readonly [form: string, choice: object])[] => [
  ['missing', {}],
  ['null', saying[service.operation](null)],
  ['number', saying[service.operation](42)],
  ['object', saying[service.operation]({ value: 'positive' })],
  ['list', saying[service.operation](['positive'])],
  ['other', saying[other(service)](' positive')],
];

/** It does not say of which operation it is. */
const answerOf = (choice: object) => {
  const { object: _, ...body } = completionBody();
  return { json: { ...body, choices: [{ index: 0, finish_reason: 'stop', ...choice }] } };
};

/** What becomes of the indexes of a packed answer. */
const INDEXES: readonly ((index: number, prompts: number) => unknown)[] = [
  (index) => index + 1,
  (index, prompts) => ((index + 1) % prompts === 0 ? prompts : index),
  (index) => Math.max(0, index - 1),
  () => 0,
  () => undefined,
  (index) => String(index),
  (index) => -index,
];

/** A folder, a service and a way to run a job, anew for each test of a suite. */
function bench(store: () => Pick<StoreUnderTest, 'env'>) {
  let work: Workplace;
  let service: ScriptedService | null = null;
  let emulator: Emulator | null = null;
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(async () => {
    await service?.close();
    await emulator?.close();
    service = null;
    emulator = null;
    work.remove();
  });
  const serve = async (script: Script): Promise<ScriptedService> => {
    service = await startScriptedService(script);
    return service;
  };
  const job = (settings: object): string => work.job({ output: { path: 'out.jsonl' }, ...settings });
  const env = () => ({ PROMPTMILL_BASE_URL: service?.url ?? emulator?.url ?? '', ...store().env });
  const run = (settings: object, ...flags: string[]): Promise<Ended> =>
    work.call(['run', job(settings), ...flags], env());
  /** In a process of its own, whose log is a part of what it says. */
  const runAlone = (settings: object): Promise<Ended> => work.run(['run', job(settings)], env());
  const records = () => work.lines('out.jsonl');
  const summary = () => JSON.parse(work.read('out.summary.json'));

  const emulate = async (options: EmulatorOptions): Promise<Emulator> => {
    emulator = await startEmulator({ keys: [KEY, 'another'], ...options });
    return emulator;
  };
  const rows = (count: number): string => work.rows(count);
  const write = (name: string, text: string): string => work.write(name, text);
  return { serve, emulate, run, runAlone, records, summary, rows, write };
}

describeOn('embedded', 'answers that are none, through a run', (store) => {
  const { serve, emulate, run, records, summary, rows, write } = bench(store);

  it('fault 75: a choice without a text is no answer: the row is called again, and fails when none comes', async ({
    task,
  }) => {
    const service = serviceOn(store());
    const say = saying[service.operation];
    const TEXTLESS = textless(service);
    const forms = TEXTLESS.map(([form]) => form);
    const given = ['good', ...forms.flatMap((form) => [`once-${form}`, `always-${form}`, `good-${form}`])];
    write('forms.csv', `form\n${[...given, 'empty'].join('\n')}\n`);
    const { requests } = await serve(({ prompt, count }) => {
      const [, when = '', form = ''] = /^form (\w+)-(\w+)$/.exec(prompt) ?? [];
      if (prompt === 'form empty') return answerOf(say(''));
      if (when === 'always' || (when === 'once' && count === 1)) {
        return answerOf(TEXTLESS.find(([name]) => name === form)?.[1] ?? {});
      }
      return {};
    });
    const { code, stderr } = await run({
      service,
      input: { path: 'forms.csv' },
      prompt: 'form {{ form }}',
      limits: { concurrency: 2, attempts: 2 },
    });

    expect(code, stderr).toBe(1);
    const all = records();
    for (const [form] of TEXTLESS) {
      const one = (name: string) => all.find(({ input }) => input.form === name);
      expect(one(`once-${form}`), form).toMatchObject({
        status: 'completed',
        answer: 'positive',
        attempts: 2,
      });
      const error_code = form === 'other' ? 'operation_not_supported' : 'no_text';
      expect(one(`always-${form}`), form).toMatchObject({ status: 'failed', error: { code: error_code } });
    }
    expect(all.find(({ input }) => input.form === 'always-number').error.message).toBe(
      `the answer has no text: ${JSON.stringify({ index: 0, finish_reason: 'stop', ...say(42) })}`,
    );
    expect(all.at(-1)).toMatchObject({ input: { form: 'empty' }, status: 'completed', text: '' });
    expect(all.filter(({ status, text }) => status === 'completed' && typeof text !== 'string')).toEqual([]);
    const { calls } = summary();
    // Each of them may have been paid for; the second of those that fail is not called again.
    expect(calls).toMatchObject({ sent: requests.length, repeated: 2 * TEXTLESS.length });
    task.meta.fault = { rows: all.length, calls: requests.length, repeated: calls.repeated };
  });

  it('fault 76: no row gets the answer of a neighbour', async ({ task }) => {
    const ROWS = 120;
    const { requests } = await serve((request) => {
      const prompts = promptsOf(request);
      const asked = Number(prompts[0]?.split(' ')[1]);
      // Every second packed answer is good, so that packing goes on.
      const spoil =
        prompts.length > 1 && asked % 12 === 1 ? INDEXES[Math.floor(asked / 12) % INDEXES.length] : undefined;
      const choices = prompts.map((prompt, i) => ({
        text: ` re ${prompt}`,
        index: spoil === undefined ? i : spoil(i, prompts.length),
        finish_reason: 'stop',
      }));
      return { json: { ...completionBody({ filters: false }), choices } };
    });
    const { code, stderr } = await run({
      input: { path: rows(ROWS) },
      limits: { concurrency: 1, prompts_per_request: 6, attempts: 1 },
    });

    expect(code, stderr).toBe(0);
    expect(records().map(({ status, answer }) => `${status} ${answer}`)).toEqual(
      Array.from({ length: ROWS }, (_, i) => `completed re row ${i + 1}`),
    );
    // Each row of a spoilt answer was called alone, once.
    const alone = requests.filter((request) => promptsOf(request).length === 1);
    expect(alone.length).toBe(ROWS / 2);
    expect(requests.length).toBe(ROWS / 6 + ROWS / 2);
    const { calls } = summary();
    expect(calls).toMatchObject({ sent: requests.length, retried: ROWS / 2, repeated: ROWS / 2 });
    task.meta.fault = { rows: ROWS, calls: requests.length, repeated: calls.repeated };
  });

  it('fault 77: a budget holds by our own counts, and each row says that its usage is estimated', async ({
    task,
  }) => {
    const ROWS = 120;
    const HALF = 1_600;
    const odd = ['empty-usage', 'total-usage', 'text-usage', 'negative-usage', 'huge-usage'];
    const emulator = await emulate({
      latency: { baseMs: 5, perTokenMs: 0 },
      faults: odd.flatMap((name) => disturbanceNamed(name) ?? []).map((fault) => ({ fault, rate: 0.2 })),
    });
    const job = (tokens: number): object => ({
      service: serviceOn(store()),
      input: { path: rows(ROWS) },
      prompt: 'Is this note positive, negative or neutral? {{ id }}: {{ note }}',
      parameters: { max_tokens: 8 },
      limits: { concurrency: 4, chunk_size: 8, budget: { tokens } },
    });
    const spent = (): number => emulator.stats().usage.total_tokens;

    const stopped = await run(job(HALF), '--json');
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(spent()).toBeLessThanOrEqual(HALF);
    expect(spent()).toBeGreaterThan(0.8 * HALF);
    const early = JSON.parse(stopped.stdout);
    expect(early.stopped).toContain('budget: limits.budget.tokens is 1,600');
    expect(early.usage.total_tokens).toBeLessThanOrEqual(HALF);

    const whole = await run(job(10 * HALF));
    expect(whole.code, whole.stderr).toBe(0);
    const all = records();
    expect(all.map(({ usage }) => usage.estimated)).toEqual(Array(ROWS).fill(true));
    const { usage, usage_estimated } = summary();
    expect(usage_estimated).toBe(ROWS);
    expect(usage.prompt_tokens, 'prompts are counted exactly').toBe(emulator.stats().usage.prompt_tokens);
    expect(Math.abs(usage.completion_tokens - emulator.stats().usage.completion_tokens)).toBeLessThanOrEqual(
      ROWS,
    );
    expect(emulator.stats().requests).toBe(ROWS);
    task.meta.fault = { rows: ROWS, calls: emulator.stats().requests, repeated: 0 };
  });

  it('fault 80: a redirect, a 404, a 403 or a 401 among good answers costs a call and stops nothing', async ({
    task,
  }) => {
    const ROWS = 120;
    const odd = [
      { status: 302, headers: { location: 'https://elsewhere.example/login' } },
      { status: 404, json: { error: { code: '404', message: 'Resource not found' } } },
      { status: 403, json: { error: { code: '403', message: 'Access denied' } } },
      {
        status: 401,
        json: { error: { code: '401', message: 'Access denied due to invalid subscription key' } },
      },
      { status: 404, json: { error: { code: 'DeploymentNotFound', message: 'does not exist' } } },
      { text: '<html><head><title>Sign in</title></head></html>' },
    ];
    const { requests } = await serve(({ total }) =>
      total > 12 && total % 5 === 0 ? (odd[(total / 5) % odd.length] ?? {}) : {},
    );
    const { code, stderr } = await run({
      service: serviceOn(store()),
      input: { path: rows(ROWS) },
      limits: { concurrency: 4 },
    });
    expect(code, stderr).toBe(0);
    expect(records().map(({ status }) => status)).toEqual(Array(ROWS).fill('completed'));
    const { calls } = summary();
    expect(requests.length).toBeGreaterThan(ROWS + 20);
    expect(calls).toMatchObject({ sent: requests.length, retried: requests.length - ROWS });
    task.meta.fault = { rows: ROWS, calls: requests.length, repeated: calls.repeated };
  });
});

describe.each(SERVICES)('services of $operation that answer wrong, through a run on embedded', (called) => {
  const { operation } = called;
  const say = saying[operation];
  const wrong = other(called);
  const state = new Workplace();
  const { serve, run, runAlone, records, summary, rows } = bench(() => ({
    env: { PROMPTMILL_STATE_DIR: state.folder },
  }));
  afterAll(() => state.remove());

  it('fault 75: a service that answers in the form of the other operation stops the run at once', async () => {
    let isOther = true;
    const { requests } = await serve(() => (isOther ? answerOf(saying[wrong]('hello')) : {}));
    const job = { service: called, input: { path: rows(40) }, limits: { concurrency: 4 } };
    const stopped = await run(job);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr.replaceAll(/\s+/g, ' ')).toContain(
      `in the form of the ${wrong} operation, with a ${operation === 'chat' ? 'text in place of a message' : 'message in place of a text'}. The job calls the ${operation} operation`,
    );
    expect(requests.length).toBeLessThanOrEqual(4);
    isOther = false;
    const paid = requests.length;
    const resumed = await run(job);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(records().map(({ status }) => status)).toEqual(Array(40).fill('completed'));
    expect(summary().calls.repeated, 'answers that may have been paid for').toBe(paid);
  });

  it('fault 75: a service whose answers never have a text stops the run after ten rows', async () => {
    const { requests } = await serve(() => answerOf(say(null)));
    const { code, stderr } = await run({
      service: called,
      input: { path: rows(100) },
      limits: { concurrency: 4 },
    });
    expect(code, stderr).toBe(3);
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain(
      `no_text: the answer has no text: ${JSON.stringify({ index: 0, finish_reason: 'stop', ...say(null) })}. Check that service.deployment`,
    );
    expect(requests.length).toBeLessThanOrEqual(10 + 2 * 4);
  });

  it('fault 75: the canary sees it', async () => {
    const { requests } = await serve(() => answerOf(say(null)));
    const limits = { concurrency: 2, attempts: 1, canary: 3 };
    const { code, stderr } = await run({ service: called, input: { path: rows(40) }, limits });
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('canary_failed');
    expect(requests.length).toBe(3);
  });

  if (operation === 'completions')
    it('fault 76: a server that mixes every answer up is asked for one row at a time after the third', async () => {
      const ROWS = 120;
      const { requests } = await serve((request) => {
        const prompts = promptsOf(request);
        const choices = prompts.map((prompt) => ({ text: ` re ${prompt}`, index: 0, finish_reason: 'stop' }));
        return { json: { ...completionBody({ filters: false }), choices } };
      });
      const { code, stderr } = await runAlone({
        input: { path: rows(ROWS) },
        limits: { concurrency: 1, prompts_per_request: 6, chunk_size: 6 },
      });
      expect(code, stderr).toBe(0);
      expect(records().map(({ answer }) => answer)).toEqual(
        Array.from({ length: ROWS }, (_, i) => `re row ${i + 1}`),
      );
      expect(requests.filter((request) => promptsOf(request).length > 1).length).toBe(3);
      expect(stderr).toContain('rows are called one by one from now on');
    });

  it.each([
    ['a key that is revoked', 401, 'the service refuses every key (HTTP 401)'],
    ['a deployment that is deleted', 404, 'Check PROMPTMILL_BASE_URL'],
  ])('fault 80: %s in the middle stops the run after a few calls', async (_, status, words) => {
    const ROWS = 200;
    let gone = true;
    const { requests } = await serve(({ total }) =>
      gone && total > 60 ? { status, json: { error: { code: String(status), message: 'no' } } } : {},
    );
    const job = { service: called, input: { path: rows(ROWS) }, limits: { concurrency: 4 } };
    const stopped = await run(job);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr.replaceAll(/\s+/g, ' ')).toContain(words);
    // Ten in a row, and those that were in flight with them.
    expect(requests.length).toBeLessThanOrEqual(60 + 10 + 2 * 4);
    gone = false;
    const resumed = await run(job);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(records().map(({ status: ended }) => ended)).toEqual(Array(ROWS).fill('completed'));
  });

  it('fault 24: a web page in the place of the first answers stops the run at the third, and is shown', async () => {
    const page = '<!DOCTYPE html>\n<html>\n<head><title>Guest network: sign in</title></head></html>';
    const { requests } = await serve(() => ({ headers: { 'content-type': 'text/html' }, text: page }));
    const { code, stderr } = await run({
      service: called,
      input: { path: rows(100) },
      limits: { concurrency: 1 },
    });
    expect(code, stderr).toBe(3);
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain(
      'not_json: the answer is a web page and not JSON: <!DOCTYPE html> … Guest network: sign in. Check PROMPTMILL_BASE_URL',
    );
    expect(requests.length).toBe(3);
  });
});
