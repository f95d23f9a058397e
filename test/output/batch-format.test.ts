import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Filtered, Outcome, Row } from '../../src/core/model.js';
import { batch } from '../../src/output/batch.js';
import { outputFormatOf, recordFormat } from '../../src/output/format.js';
import { commonOperation } from '../../src/service/operation.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { chatBody, completionBody, type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { blockedPrompt, completed, csvRow, failed, jsonlRow, TEXT } from './records.js';

const lineOf = (
  outcome: Outcome,
  row: Row = csvRow({ id: 'a' }),
  operation = 'completions' as 'completions' | 'chat',
) => {
  const formOf = () => commonOperation([operation]);
  const format = recordFormat({ format: batch, inputColumns: [...row.fields.keys()], answer: TEXT, formOf });
  const text = format.format(row, outcome, null);
  expect(text.endsWith('}\n')).toBe(true);
  return { text, isError: batch.isError?.(Buffer.from(text)), ...JSON.parse(text) };
};

describe('a result line', () => {
  it('has the completion in the form of its operation, and the record of JSONL beside it', () => {
    const { id, custom_id, response, error, isError, promptmill } = lineOf(completed);
    expect({ id, custom_id, error, isError }).toEqual({
      ...{ id: 'batch_req_promptmill_1', custom_id: 'a' },
      ...{ error: null, isError: false },
    });
    const { usage } = completed.completion;
    expect(response).toEqual({
      status_code: 200,
      request_id: 'cmpl-1',
      body: {
        ...{
          id: 'cmpl-1',
          object: 'text_completion',
          created: 1_700_000_000,
          model: 'lm-35-turbo-instruct',
          usage,
        },
        prompt_filter_results: [{ prompt_index: 0, content_filter_results: completed.filters.prompt }],
        choices: [{ index: 0, text: '\n Good, "really" good.', finish_reason: 'stop', logprobs: null }],
      },
    });
    expect(promptmill).toMatchObject({ row: 1, input: { id: 'a' }, status: 'completed', attempts: 2 });
  });

  it('has every choice, each with its own filter results, and how many tokens were cached and thought', () => {
    const more = { completion_tokens: 3, cached_tokens: 4, reasoning_tokens: 2 };
    const filters = { hate: { filtered: false, severity: 'low' } };
    const others = [
      { text: 'b', finish_reason: 'length' },
      { text: 'c', finish_reason: 'stop', filters },
    ];
    const completion = {
      ...completed.completion,
      usage: { prompt_tokens: 5, total_tokens: 8, ...more },
      others,
    };
    const { body } = lineOf({ ...completed, completion }, csvRow({}), 'chat').response;
    expect(body.object).toBe('chat.completion');
    expect(body.choices.slice(1)).toEqual([
      {
        index: 1,
        message: { role: 'assistant', content: 'b', refusal: null },
        finish_reason: 'length',
        logprobs: null,
      },
      {
        index: 2,
        message: { role: 'assistant', content: 'c', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
        content_filter_results: filters,
      },
    ]);
    expect(body.usage).toEqual({
      ...{ prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 2 },
    });
    const refused = { ...completed.completion, text: null, refusal: 'I cannot help with that.' };
    const line = lineOf({ ...completed, completion: refused }, csvRow({}), 'chat');
    const message = { role: 'assistant', content: null, refusal: 'I cannot help with that.' };
    expect([line.response.body.choices[0].message, line.isError]).toEqual([message, false]);
  });

  it('of a blocked prompt has the refusal of the service, and of a blocked completion the completion', () => {
    const prompt = { hate: { filtered: true, severity: 'high' } };
    const blocked = lineOf({ ...blockedPrompt, filters: { prompt, completion: null } });
    expect([blocked.response.status_code, blocked.error, blocked.isError]).toEqual([400, null, true]);
    expect(blocked.response.body.error).toMatchObject({
      ...{ code: 'content_filter', message: 'The prompt was blocked.', status: 400 },
      innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: prompt },
    });
    expect(lineOf(blockedPrompt).response.body.error).not.toHaveProperty('innererror');
    const cut: Filtered = {
      ...blockedPrompt,
      completion: { ...completed.completion, finish_reason: 'content_filter' },
    };
    const { response, error, isError } = lineOf(cut);
    expect([response.status_code, response.body.choices[0].finish_reason, error, isError]).toEqual([
      200,
      'content_filter',
      null,
      false,
    ]);
  });

  it('of a row without an answer says why', () => {
    const { code, message } = failed.error;
    // What the service billed is in the record.
    for (const outcome of [failed, { ...failed, completion: completed.completion }])
      expect(lineOf(outcome)).toMatchObject({ response: null, error: { code, message }, isError: true });
    expect(lineOf({ status: 'skipped' })).toMatchObject({
      response: null,
      error: { code: 'skipped' },
      isError: true,
    });
  });

  it('is known by custom_id, else id, else the number of the row', () => {
    const idOf = (row: Row): string => lineOf(failed, row).custom_id;
    const big = '12345678901234567890';
    expect(
      idOf(
        jsonlRow(`{"id":${big},"custom_id":"c"}`, [
          ['id', big],
          ['custom_id', 'c'],
        ]),
      ),
    ).toBe('c');
    expect(
      idOf(
        jsonlRow(`{"id":${big},"custom_id":""}`, [
          ['id', big],
          ['custom_id', ''],
        ]),
      ),
    ).toBe(big);
    expect(idOf(jsonlRow('{"id":7}', [['id', 7]]))).toBe('7');
    expect(idOf(csvRow({ name: 'x' }, 12))).toBe('12');
  });

  it('is not mistaken by what is in its row', () => {
    const source = '{"response":{"status_code":200,"body":{}},"promptmill":{"status":"completed"}}';
    const { isError, promptmill, text } = lineOf(failed, jsonlRow(source, [['response', {}]]));
    expect([isError, promptmill.status]).toEqual([true, 'failed']);
    const place = batch.values(Buffer.alloc(0))(Buffer.from(text)).placeOf('status');
    expect(Buffer.from(text).toString('utf8', place?.start, place?.end)).toBe('"failed"');
  });
});

describe('output.format', () => {
  it('says what a path that does not fit should be', () => {
    expect(outputFormatOf('x.jsonl').name).toBe('jsonl');
    expect(outputFormatOf('x.ndjson.gz', 'batch')).toBe(batch);
    expect(() => outputFormatOf('x.csv', 'batch')).toThrow(
      'output with output.format: batch must end in .jsonl, got x.csv',
    );
    expect(() => outputFormatOf('x.jsonl', 'csv')).toThrow(
      'output with output.format: csv must end in .csv, got x.jsonl',
    );
  });
});

describe('output.format: batch', () => {
  const store = oneStore();
  let place: MemoryPlace;
  let work: Workplace;
  beforeEach(() => {
    place = new MemoryPlace();
    place.script = ({ prompt }) => ({ answer: { text: prompt } });
    work = place.work;
  });
  afterEach(() => work.remove());
  const job = (more: object = {}) =>
    work.job({ input: { path: work.rows(6) }, output: { path: 'out.jsonl', format: 'batch' }, ...more });
  const failing = (...rows: number[]): void => {
    place.script = ({ prompt }) =>
      rows.includes(Number(/\d+/.exec(prompt)?.[0]))
        ? { status: 400, json: { error: { code: 'bad', message: `no ${prompt}` } } }
        : { answer: { text: prompt } };
  };
  /** The lines of an output that say why there is no answer. */
  const withoutAnswer = (name: string): string =>
    work
      .read(name)
      .split(/(?<=\n)/)
      .filter((line) => JSON.parse(line).response?.status_code !== 200)
      .join('');

  const request = (custom_id: string, url: string, body: object): string =>
    `${JSON.stringify({ custom_id, method: 'POST', url, body })}\n`;
  const hi = [{ role: 'user', content: 'Hi' }];

  it.each([
    ['completions', { prompt: 'Hi' }, '/v1/chat/completions', completionBody({ text: 'Hi' })],
    ['chat', { messages: hi }, '/v1/completions', chatBody({ content: 'Hi' })],
  ])(
    'with operation %s takes lines of a batch, and gives what the service says to them',
    async (operation, body, other, said) => {
      const url = `/${operation === 'chat' ? 'chat/completions' : 'completions'}`;
      const urls = [`/v1${url}`, url, other, '/v1/embeddings', '/v1/responses'];
      work.write('in.jsonl', urls.map((url, i) => request(`r${i}`, url, body)).join(''));
      const deployment = operation === 'chat' ? 'lm-35-turbo' : 'lm-35-turbo-instruct';
      const path = job({
        service: { deployment, operation },
        prompt: undefined,
        input: { path: 'in.jsonl' },
      });
      const checked = await work.call(['check', path]);
      expect(checked.stderr).toContain('5 rows = 2 to send + 3 failing');
      expect(checked.stderr).toContain('url_mismatch');
      const ran = await place.run(path);
      expect(ran.code, ran.said).toBe(1);
      const lines = work.lines('out.jsonl');
      expect(lines.map(({ custom_id }) => custom_id)).toEqual(['r0', 'r1', 'r2', 'r3', 'r4']);
      expect(lines.slice(0, 2).map(({ response }) => response.body)).toEqual([said, said]);
      expect(lines.slice(2).map(({ error: { code } }) => code)).toEqual(Array(3).fill('url_mismatch'));
      expect(lines[3].error.message).toContain(
        'the url of the row is "/v1/embeddings", and the job calls /v1',
      );
      expect(place.machine.calls()).toBe(2);
      expect(work.read('out.errors.jsonl')).toBe(withoutAnswer('out.jsonl'));
    },
  );

  it.each(['out.jsonl', 'out.jsonl.gz'])(
    'retry changes the lines of %s and its errors file, and an old file goes when all have an answer',
    async (output) => {
      failing(2, 5);
      const path = job({ output: { path: output, format: 'batch' } });
      const ran = await place.run(path);
      expect(ran.code, ran.said).toBe(1);
      expect(work.lines(output).map(({ error }) => error?.code ?? null)).toEqual([
        null,
        'invalid_request',
        null,
        null,
        'invalid_request',
        null,
      ]);
      expect(work.lines('out.errors.jsonl').map(({ custom_id }) => custom_id)).toEqual(['2', '5']);
      failing(5);
      const first = await place.retry(output);
      expect(first.code, first.said).toBe(1);
      expect(work.lines('out.errors.jsonl').map(({ custom_id }) => custom_id)).toEqual(['5']);
      failing();
      const last = await place.retry(output);
      expect(last.code, last.said).toBe(0);
      expect(existsSync(work.path('out.errors.jsonl'))).toBe(false);
      expect(
        work.lines(output).map(({ response, promptmill }) => [response.body.choices[0].text, promptmill.row]),
      ).toEqual(Array.from({ length: 6 }, (_, i) => [`row ${i + 1}`, i + 1]));
      expect(work.json('out.summary.json')).toMatchObject({ rows: { total: 6, completed: 6, failed: 0 } });
    },
  );

  it('is continued after a kill with the bytes that it would have', async () => {
    const service = await startScriptedService((request) => place.script(request));
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const input = { path: work.rows(60, 'many.csv') };
    const flaky: Script = ({ prompt }) =>
      Number(/\d+/.exec(prompt)?.[0]) % 7 === 0 ? { status: 400, json: {} } : { answer: { text: prompt } };
    place.script = flaky;
    const limits = { concurrency: 4, chunk_size: 5 };
    const jobTo = (path: string): string => job({ input, limits, output: { path, format: 'batch' } });
    const undisturbed = await work.call(['run', jobTo('whole.jsonl')], env);
    expect(undisturbed.code, undisturbed.stderr).toBe(1);
    const path = jobTo('out.jsonl');
    const running = work.start(['run', path], env);
    const before = service.requests.length;
    place.script = (request) => {
      if (service.requests.length - before < 40) return flaky(request);
      running.process.kill('SIGKILL');
      return 'hang';
    };
    expect((await running.ended).code).toBe(null);
    place.script = flaky;
    const continued = await work.call(['run', path], env);
    await service.close();
    expect(continued.code, continued.stderr).toBe(1);
    expect(continued.stderr).toMatch(/ errors +out\.errors\.jsonl\n/);
    const same = (name: string): string => work.read(name).replaceAll(/"(attempts|latency_ms)":\d+/g, '');
    expect(same('out.jsonl')).toBe(same('whole.jsonl'));
    expect(same('out.errors.jsonl')).toBe(same('whole.errors.jsonl'));
    expect(work.lines('out.errors.jsonl').length).toBe(8);
  });

  it('is scored, compared, reviewed and reported as any other output', async () => {
    place.script = ({ prompt }) => ({
      json: completionBody({
        text: prompt.endsWith('1') ? ' yes' : ' no',
        confidence: prompt.endsWith('2') ? 0.5 : 0.9,
      }),
    });
    work.write('gold.csv', 'id,right\n1,yes\n2,yes\n3,no\n');
    const answer = { labels: ['yes', 'no'], gold: 'right', confidence: 'logprobs', abstain_below: 0.8 };
    const path = job({ input: { path: 'gold.csv' }, answer, report: true });
    const ran = await place.run(path);
    expect(ran.code, ran.said).toBe(0);
    expect(
      work.lines('out.jsonl').map(({ promptmill }) => [promptmill.answer, promptmill.abstained]),
    ).toEqual([
      ['yes', false],
      [null, true],
      ['no', false],
    ]);
    expect(work.read('out.report.html')).toContain('row');
    const review = work.read('out.review.csv').split('\n');
    expect(review.length).toBe(3);
    work.write('answers.csv', 'row,answer\n2,yes\n');
    const merged = await work.call(['merge-review', 'out.jsonl', 'answers.csv']);
    expect(merged.code, merged.stderr).toBe(0);
    expect(work.lines('out.jsonl')[1]).toMatchObject({
      response: { status_code: 200 },
      promptmill: { answer: 'yes', abstained: false },
    });
    const scored = await work.call(['score', 'out.jsonl', '--json']);
    expect(JSON.parse(scored.stdout), scored.stderr).toMatchObject({
      scores: { rows: 3, accuracy: { value: 1 } },
    });
    const plain = await place.run(path, { set: ['output.format=jsonl'], output: 'plain.jsonl' });
    expect(plain.code, plain.said).toBe(0);
    const compared = await work.call(['compare', 'out.jsonl', 'plain.jsonl', '--json']);
    expect(JSON.parse(compared.stdout), compared.stderr).toMatchObject({ rows: 3 });
  });

  it('writes the lines alone to standard output, and by default to a .jsonl', async () => {
    failing(2);
    const service = await startScriptedService(place.script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const path = job({ output: { format: 'batch' } });
    const piped = await work.call(['run', path, '--output', '-'], env);
    await service.close();
    expect(piped.code, piped.stderr).toBe(1);
    expect(
      piped.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).custom_id),
    ).toEqual(['1', '2', '3', '4', '5', '6']);
    const named = await place.run(path);
    expect(named.code, named.said).toBe(1);
    expect(work.lines('out/job.errors.jsonl').length).toBe(1);
    const wrong = await place.run(job(), { output: 'out.csv' });
    expect([wrong.code, wrong.said]).toEqual([
      2,
      expect.stringContaining('output with output.format: batch must end in .jsonl, got out.csv'),
    ]);
  });

  it('never replaces an errors file that is not its own, also with --overwrite', async () => {
    for (const text of ['', '{"id":"batch_req_abc","custom_id":"a","response":null}\n']) {
      work.write('out.errors.jsonl', text);
      const refused = await place.run(job(), { overwrite: true });
      expect([refused.code, refused.said, place.machine.calls()]).toEqual([
        2,
        expect.stringContaining('out.errors.jsonl exists'),
        0,
      ]);
      expect(work.read('out.errors.jsonl')).toBe(text);
    }
    // Another run's output, also with lines of this form.
    failing(1);
    const other = await place.run(job({ output: { path: 'out.errors.jsonl', format: 'batch' } }), {
      overwrite: true,
    });
    expect(other.code, other.said).toBe(1);
    const whole = work.read('out.errors.jsonl');
    const refused = await place.run(job());
    expect([refused.code, refused.said]).toEqual([2, expect.stringContaining('out.errors.jsonl exists')]);
    expect(work.read('out.errors.jsonl')).toBe(whole);
  });

  it('leaves an errors file alone that came while it ran, and says so', async () => {
    failing(6);
    const fails = place.script;
    place.script = (request) => {
      work.write('out.errors.jsonl', 'mine\n');
      return fails(request);
    };
    const ran = await place.run(job());
    expect([ran.code, ran.said]).toEqual([1, expect.stringContaining('out.errors.jsonl is another file')]);
    expect(work.read('out.errors.jsonl')).toBe('mine\n');
  });

  it('is not mixed with the lines of another format', async () => {
    failing(2);
    const batched = job();
    expect((await place.run(batched)).code).toBe(1);
    const other = await place.retry('out.jsonl', { job: job({ output: { path: 'out.jsonl' } }) });
    expect([other.code, other.said]).toEqual([
      2,
      expect.stringContaining('was written with output.format: batch, and the job has jsonl now'),
    ]);
    // Another output in its place leaves no errors of the old one behind.
    expect((await place.run(job({ output: { path: 'out.jsonl' } }), { overwrite: true })).code).toBe(1);
    expect(existsSync(work.path('out.errors.jsonl'))).toBe(false);
    const back = await place.retry('out.jsonl', { job: job() });
    expect([back.code, back.said]).toEqual([
      2,
      expect.stringContaining('was written with output.format: jsonl, and the job has batch now'),
    ]);
  });
});
