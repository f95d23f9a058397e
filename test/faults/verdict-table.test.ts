import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import './figures.js';
import { formOf, gateway } from '../service/verdict-table.js';
import { Workplace } from '../support/promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedReply,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

/** The answer of a form in the table of verdicts. */
function replyOf(name: string): ScriptedReply {
  const [, status, body] = formOf(name);
  return { status, ...(typeof body === 'string' ? { text: body } : { json: body }) };
}

/** Refused for good: one call, and the row has this status and code. */
const FINAL: readonly (readonly [
  form: string,
  reply: ScriptedReply,
  status: string | undefined,
  code: string | undefined,
])[] = [
  ...[
    'a parameter out of range',
    'a prompt over the context window',
    'a blocked prompt, without details',
    'a blocked prompt, by the inner code',
    'a blocked answer',
  ].map((form) => {
    const [, , , { outcome }] = formOf(form);
    return [form, replyOf(form), outcome?.status, outcome?.error.code] as const;
  }),
  [
    'larger than the quota',
    { status: 429, headers: { 'retry-after': '86400' }, json: gateway('429', 'rate limit') },
    'failed',
    'request_exceeds_quota',
  ],
];

/** Passes by itself: the second call succeeds. The flag says whether the lost answer may have been paid for. */
const RETRY: readonly (readonly [form: string, reply: ScriptedReply, possiblyBilled: boolean | undefined])[] =
  [
    ...[
      'a request timeout',
      'a conflict',
      'an error of the model',
      'an error of the gateway',
      'a bad gateway',
      'a service that is down',
      'a gateway timeout',
      'fault 24: a 200 with an error',
      'fault 24: a 200 with no choices',
      'fault 24: a 200 with empty choices',
    ].map((form) => [form, replyOf(form), formOf(form)[3].possiblyBilled] as const),
    ['reset', 'reset', true],
    ['truncated', { json: completionBody(), truncate: 40 }, true],
    ['truncated in a chunk', { json: completionBody(), truncateChunked: 40 }, true],
    ['closed', { json: completionBody(), closeAfter: 40 }, true],
    ['a page', { text: '<html>hello</html>' }, true],
  ];

const seen = gateway('429', 'exceeded call rate limit');
/** Refused for lack of quota: waits, and uses up no attempt. */
const WAIT: readonly (readonly [form: string, reply: () => ScriptedReply])[] = [
  ['seconds', () => ({ status: 429, headers: { 'retry-after': '1' }, json: seen })],
  ['milliseconds', () => ({ status: 429, headers: { 'retry-after-ms': '900' }, json: seen })],
  [
    'date',
    () => ({
      status: 429,
      headers: { 'retry-after': new Date(Date.now() + 1_000).toUTCString() },
      json: seen,
    }),
  ],
  ['words', () => ({ status: 429, json: gateway('429', 'Rate limit is exceeded. Try again in 1 seconds.') })],
  ['no-hint', () => ({ status: 429, json: gateway('429', 'slow down') })],
];

/** What the operations are called with, and the words of their own in messages. */
const CALLED = [
  {
    operation: 'completions',
    deployment: 'lm-35-turbo-instruct',
    path: '/openai/deployments/lm-35-turbo-instruct/completions',
    other: 'write service: { operation: chat }',
  },
  {
    operation: 'chat',
    deployment: 'lm-35-turbo',
    path: '/openai/deployments/lm-35-turbo/chat/completions',
    other: 'write service: { operation: completions }',
  },
] as const;

/** Nothing can pass: the run stops, resumably, and says what to mend. */
const STOP: readonly (readonly [
  form: string,
  says: readonly (string | ((called: (typeof CALLED)[number]) => string))[],
  reply?: ScriptedReply,
])[] = [
  ['network rules', ['Firewall rules']],
  ['a deployment that does not exist', ['service.deployment']],
  ['a wrong path', ['PROMPTMILL_BASE_URL', ({ path }) => path]],
  ["fault 98: llama.cpp's router, no such model", ['service.deployment']],
  ['a conversation model', [({ other }) => other]],
  ['an api-version that is not supported', ['service.api_version']],
  ['llama.cpp, several choices, of a build that gives one', ['answer.votes']],
  ['llama.cpp, a field that it does not know', ['row_parameters']],
  ['a quota that is used up, by code', ['quota']],
  ['a wrong token', ['PROMPTMILL_API_KEY']],
  ['a redirect', ['elsewhere.example'], { status: 307, headers: { location: 'http://elsewhere.example/x' } }],
];

if (!haveRedis()) {
  describeMissing('the verdict table on Redis', 'redis-server or valkey-server');
} else {
  describe.each(CALLED)(
    'the verdict table, through a run of $operation on Redis, counted at the service',
    (called) => {
      const work = new Workplace();
      let redis: Server;
      let service: ScriptedService;
      let script: Script = () => ({});
      beforeAll(async () => {
        redis = await startRedis();
        service = await startScriptedService((request) => script(request));
      });
      afterAll(async () => {
        await service.close();
        await redis.stop();
        work.remove();
      });

      const prompt = (form: string): string => `form ${form}`;
      function job(name: string, forms: readonly string[], limits: object = {}): string {
        work.write(`${name}.csv`, `form\n${forms.map((form) => `"${form}"`).join('\n')}\n`);
        return work.job(
          {
            service: { operation: called.operation, deployment: called.deployment },
            input: { path: `${name}.csv` },
            prompt: 'form {{ form }}',
            output: { path: `${name}.out.csv` },
            limits: { concurrency: 4, ...limits },
          },
          `${name}.yaml`,
        );
      }
      const env = () => ({ PROMPTMILL_BASE_URL: service.url, PROMPTMILL_QUEUE: redis.url });
      const run = (path: string) => work.call(['run', path], env());

      it('fault 19: what is final is called once and never again', async ({ task }) => {
        script = (request) => FINAL.find(([form]) => request.prompt === prompt(form))?.[1] ?? {};
        const path = job('final', [...FINAL.map(([form]) => form), 'good']);
        const { code, stderr } = await run(path);
        expect(code, stderr).toBe(1);
        expect(
          work.records('final.out.csv').map((row) => [row['form'], row['status'], row['error_code']]),
        ).toEqual([
          ...FINAL.map(([form, , status, error]) => [form, status, error]),
          ['good', 'completed', ''],
        ]);
        for (const [form] of FINAL) expect(service.calls(prompt(form)), form).toBe(1);
        expect(work.json('final.out.summary.json')['calls']).toMatchObject({
          sent: FINAL.length + 1,
          retried: 0,
        });
        task.meta.fault = { rows: FINAL.length + 1, calls: FINAL.length + 1, repeated: 0 };
      });

      it('faults 20 to 24: what may pass is called again, and possible repeats are counted', async ({
        task,
      }) => {
        // Rows that are answered stand between them: so many failures in a row would be an outage.
        const forms = RETRY.flatMap(([form], i) => (i % 3 === 2 ? [form, `good-${i}`] : [form]));
        script = ({ prompt: asked, count }) =>
          count > 1 ? {} : (RETRY.find(([form]) => asked === prompt(form))?.[1] ?? {});
        const { code, stderr } = await run(job('retry', ['good', ...forms], { attempts: 2 }));
        expect(code, stderr).toBe(0);
        const records = work.records('retry.out.csv');
        expect(records.map((row) => [row['form'], row['status'], row['attempts']])).toEqual([
          ['good', 'completed', '1'],
          ...forms.map((form) => [form, 'completed', form.startsWith('good') ? '1' : '2']),
        ]);
        for (const [form] of RETRY) expect(service.calls(prompt(form)), form).toBe(2);
        const repeated = RETRY.filter(([, , possiblyBilled]) => possiblyBilled).length;
        expect(work.json('retry.out.summary.json')['calls']).toEqual({
          sent: RETRY.length + forms.length + 1,
          retried: RETRY.length,
          rate_limited: 0,
          repeated,
        });
        task.meta.fault = { rows: forms.length + 1, calls: RETRY.length + forms.length + 1, repeated };
      });

      it('fault 17: what waits uses up no attempt', async ({ task }) => {
        script = ({ prompt: asked, count }) =>
          count > 1 ? {} : (WAIT.find(([form]) => asked === prompt(form))?.[1]() ?? {});
        const { code, stderr } = await run(
          job(
            'wait',
            WAIT.map(([form]) => form),
            { attempts: 1 },
          ),
        );
        expect(code, stderr).toBe(0);
        expect(work.records('wait.out.csv').map((row) => [row['status'], row['attempts']])).toEqual(
          WAIT.map(() => ['completed', '1']),
        );
        for (const [form] of WAIT) expect(service.calls(prompt(form)), form).toBe(2);
        expect(work.json('wait.out.summary.json')['calls']).toMatchObject({
          sent: 2 * WAIT.length,
          rate_limited: WAIT.length,
          retried: 0,
        });
        task.meta.fault = { rows: WAIT.length, calls: 2 * WAIT.length, repeated: 0 };
      });

      it.for(STOP)(
        'faults 19 and 98: %s stops the run, which the same command continues when it is mended',
        async ([form, says, reply = replyOf(form)]) => {
          let mended = false;
          script = () => (mended ? {} : reply);
          const path = job(`stop-${STOP.findIndex(([name]) => name === form)}`, ['one'], { concurrency: 1 });
          const before = service.requests.length;
          const stopped = await run(path);
          expect(stopped.code, stopped.stderr).toBe(3);
          for (const words of says)
            expect(stopped.stderr.replaceAll(/\s+/g, ' ')).toContain(
              typeof words === 'string' ? words : words(called),
            );
          expect(service.requests.length - before).toBe(1);
          mended = true;
          const finished = await run(path);
          expect(finished.code, finished.stderr).toBe(0);
          expect(service.requests.length - before).toBe(2);
        },
      );

      it('fault 19: a refused first key gives way to the second, once and for all', async () => {
        script = ({ headers }) =>
          headers['api-key'] === 'the-second-key-of-tests'
            ? {}
            : { status: 401, json: { statusCode: 401, message: 'no' } };
        const before = service.requests.length;
        const path = job('keys', ['a', 'b', 'c', 'd', 'e', 'f'], { concurrency: 1 });
        // A process of its own, because its log is looked at.
        const { code, stderr } = await work.run(['run', path], {
          ...env(),
          PROMPTMILL_API_KEY: 'the-first-key-of-tests',
          PROMPTMILL_API_KEY_2: 'the-second-key-of-tests',
        });
        expect(code, stderr).toBe(0);
        expect(service.requests.length - before).toBe(7);
        expect(stderr.match(/refused the first key/g)?.length).toBe(1);
        expect(stderr).not.toContain('-key-of-tests');
      });
    },
  );
}
