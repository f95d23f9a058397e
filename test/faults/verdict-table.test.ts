import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import './figures.js';
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

const gateway = (status: number, code: string, message: string): ScriptedReply => ({
  status,
  json: { error: { code, message } },
});
const model = (status: number, type: string, message: string): ScriptedReply => ({
  status,
  json: { error: { message, type, param: null, code: null } },
});
const policy = {
  code: 'content_filter',
  message: 'filtered',
  innererror: {
    code: 'ResponsibleAIPolicyViolation',
    content_filter_result: { violence: { filtered: true, severity: 'high' } },
  },
};

/** Refused for good: one call, and the row has this status and code. */
const FINAL: readonly (readonly [form: string, reply: ScriptedReply, status: string, code: string])[] = [
  [
    'parameter',
    model(400, 'invalid_request_error', "3 is greater than the maximum of 2 - 'temperature'"),
    'failed',
    'invalid_request',
  ],
  [
    'too-long',
    model(
      400,
      'invalid_request_error',
      "This model's maximum context length is 4097 tokens, however you requested 5000 tokens",
    ),
    'failed',
    'context_length_exceeded',
  ],
  ['blocked', gateway(400, 'content_filter', 'filtered'), 'filtered', 'content_filter'],
  ['blocked-inner', { status: 400, json: { error: policy } }, 'filtered', 'content_filter'],
  [
    'blocked-answer',
    { json: completionBody({ text: '', finish_reason: 'content_filter' }) },
    'filtered',
    'content_filter',
  ],
  [
    'larger-than-quota',
    {
      status: 429,
      headers: { 'retry-after': '86400' },
      json: { error: { code: '429', message: 'rate limit' } },
    },
    'failed',
    'request_exceeds_quota',
  ],
];

/** Passes by itself: the second call succeeds. The flag says whether the lost answer may have been paid for. */
const RETRY: readonly (readonly [form: string, reply: ScriptedReply, possiblyBilled: boolean])[] = [
  ['408', gateway(408, 'Timeout', 'timed out'), true],
  ['409', gateway(409, 'Conflict', 'conflict'), false],
  ['500', model(500, 'server_error', 'The server had an error'), false],
  ['500-activity', { status: 500, json: { statusCode: 500, message: 'Internal', activityId: 'a' } }, false],
  ['502-empty', { status: 502, text: '' }, true],
  ['503-html', { status: 503, text: '<html><body>busy</body></html>' }, false],
  ['504-text', { status: 504, text: 'upstream timed out' }, true],
  ['reset', 'reset', true],
  ['truncated', { json: completionBody(), truncate: 40 }, true],
  ['truncated-chunk', { json: completionBody(), truncateChunked: 40 }, true],
  ['closed', { json: completionBody(), closeAfter: 40 }, true],
  ['html', { text: '<html>hello</html>' }, true],
  ['error-in-200', { json: { error: { message: 'no' } } }, true],
  ['no-choices', { json: { object: 'text_completion' } }, true],
  ['empty-choices', { json: { choices: [] } }, true],
];

const seen = { error: { code: '429', message: 'exceeded call rate limit' } };
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
  ['words', () => gateway(429, '429', 'Rate limit is exceeded. Try again in 1 seconds.')],
  ['no-hint', () => gateway(429, '429', 'slow down')],
];

/** Nothing can pass: the run stops, resumably, and says what to mend. */
const STOP: readonly (readonly [form: string, reply: ScriptedReply, says: string])[] = [
  ['403', gateway(403, 'Forbidden', 'Access denied due to network rules'), 'network rules'],
  ['404-deployment', gateway(404, 'DeploymentNotFound', 'does not exist'), 'service.deployment'],
  ['404-path', gateway(404, '404', 'Resource not found'), 'PROMPTMILL_BASE_URL'],
  [
    '404-path-shown',
    gateway(404, '404', 'Resource not found'),
    '/openai/deployments/lm-35-turbo-instruct/completions',
  ],
  ['400-model', model(400, 'invalid_request_error', "model 'x' not found"), 'service.deployment'],
  [
    'conversation-model',
    gateway(400, 'OperationNotSupported', 'The completion operation does not work with the specified model'),
    'lm-35-turbo-instruct',
  ],
  ['api-version', gateway(400, 'BadRequest', 'API version not supported'), 'service.api_version'],
  ['one-choice', model(500, 'server_error', 'Only one completion choice is allowed'), 'answer.votes'],
  ['field', model(500, 'server_error', 'Unsupported param: suffix'), 'row_parameters'],
  ['insufficient-quota', gateway(429, 'insufficient_quota', 'You exceeded your quota'), 'quota'],
  ['redirect', { status: 307, headers: { location: 'http://elsewhere.example/x' } }, 'elsewhere.example'],
  [
    '401',
    { status: 401, json: { statusCode: 401, message: 'invalid subscription key' } },
    'PROMPTMILL_API_KEY',
  ],
];

if (!haveRedis()) {
  describeMissing('the verdict table on Redis', 'redis-server or valkey-server');
} else {
  describe('the verdict table, through a run on Redis, counted at the service', () => {
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
      work.write(`${name}.csv`, `form\n${forms.join('\n')}\n`);
      return work.job(
        {
          input: { path: `${name}.csv` },
          prompt: 'form {{ form }}',
          output: { path: `${name}.out.csv` },
          limits: { concurrency: 4, ...limits },
        },
        `${name}.yaml`,
      );
    }
    const run = (path: string, env: Readonly<Record<string, string>> = {}) =>
      work.run(['run', path], { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_QUEUE: redis.url, ...env });

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

    it.each(STOP)(
      'faults 19 and 98: %s stops the run, which the same command continues when it is mended',
      async (form, reply, says) => {
        let mended = false;
        script = () => (mended ? {} : reply);
        const path = job(`stop-${form}`, ['one'], { concurrency: 1 });
        const before = service.requests.length;
        const stopped = await run(path);
        expect(stopped.code, stopped.stderr).toBe(3);
        expect(stopped.stderr).toContain(says);
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
      const { code, stderr } = await run(job('keys', ['a', 'b', 'c', 'd', 'e', 'f'], { concurrency: 1 }), {
        PROMPTMILL_API_KEY: 'the-first-key-of-tests',
        PROMPTMILL_API_KEY_2: 'the-second-key-of-tests',
      });
      expect(code, stderr).toBe(0);
      expect(service.requests.length - before).toBe(7);
      expect(stderr.match(/refused the first key/g)?.length).toBe(1);
      expect(stderr).not.toContain('-key-of-tests');
    });
  });
}
