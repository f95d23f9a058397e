import { describe, expect, it, test } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import type { Json, Parameters, Row } from '../../src/core/model.js';
import { type FixedParameters, requestPlan, rowRequest } from '../../src/prompt/row-request.js';
import { csv } from '../../src/source/csv.js';
import type { InputFormat } from '../../src/source/input.js';
import { jsonl } from '../../src/source/jsonl.js';

const row = (fields: Readonly<Record<string, Json>>, rest: Partial<Row> = {}): Row => ({
  ...{ number: 1, line: 1, bytes: 0, fields: new Map(Object.entries(fields)) },
  ...rest,
});

const columns = ['prompt', 'review', 'max_tokens', 'stop', 'body'];

function plan(
  job: {
    prompt?: string;
    require?: string[];
    rowParameters?: (keyof Parameters)[];
    fixedParameters?: FixedParameters;
  } = {},
  input: { columns: readonly string[]; format: InputFormat } = { columns, format: jsonl },
) {
  return requestPlan(
    {
      ...{ operations: ['completions'], prompt: null, require: [], rowParameters: [] },
      ...{ parameters: {}, fixedParameters: null, system: null, messages: null, ...job },
    },
    { name: 'in.jsonl', ...input },
  );
}

const failed = (code: string, message: unknown = expect.any(String)) => ({
  kind: 'settled',
  outcome: { status: 'failed', error: { code, message }, attempts: 0, latency_ms: null },
});

describe('the request of a row', () => {
  it('is the rendered template', () => {
    expect(rowRequest(row({ review: 'good' }), plan({ prompt: 'Review: {{review}}' }))).toEqual({
      kind: 'send',
      prompt: 'Review: good',
      parameters: null,
    });
  });

  it("is the row's own prompt when the job has none", () => {
    expect(rowRequest(row({ prompt: ' a {{review}} ' }), plan())).toMatchObject({ prompt: ' a {{review}} ' });
  });

  test.each([[{}], [{ prompt: '' }], [{ prompt: ' \n\t' }], [{ prompt: null }]])(
    'fails without a prompt: %j',
    (fields) => {
      expect(rowRequest(row(fields), plan())).toEqual(failed('empty_prompt'));
    },
  );

  it('fails when the template leaves nothing, or the prompt is no text', () => {
    expect(rowRequest(row({ review: ' ' }), plan({ prompt: '{{review}}\n' }))).toEqual(
      failed('empty_prompt'),
    );
    expect(rowRequest(row({ prompt: ['a', 'b'] }), plan())).toEqual(
      failed('invalid_parameters', 'prompt must be a text, got ["a","b"]'),
    );
  });

  it('faults 5 and 11: fails with the fault of a bad row, whatever else it lacks', () => {
    const problem = { code: 'bad_json', message: 'line 1' };
    expect(rowRequest(row({}, { problem }), plan({ require: ['review'] }))).toEqual(
      failed('bad_json', 'line 1'),
    );
  });

  test.each([[{}], [{ review: '' }], [{ review: ' \u00a0\n' }], [{ review: null }]])(
    'is skipped without a required field: %j',
    (fields) => {
      const required = plan({ prompt: 'x {{review}}', require: ['review'] });
      expect(rowRequest(row(fields), required)).toEqual({ kind: 'settled', outcome: { status: 'skipped' } });
      expect(rowRequest(row({ review: 0 }), required)).toMatchObject({ kind: 'send' });
    },
  );
});

describe('columns that override parameters', () => {
  const job = { prompt: 'x', rowParameters: ['max_tokens', 'stop'] as (keyof Parameters)[] };
  const parametersOf = (fields: Readonly<Record<string, Json>>): unknown => {
    const request = rowRequest(row(fields), plan(job));
    return request.kind === 'send' ? request.parameters : request.outcome;
  };

  it('are read from text or JSON', () => {
    expect(parametersOf({ max_tokens: ' 20 ', stop: '\n' })).toEqual({ max_tokens: 20, stop: '\n' });
    expect(parametersOf({ max_tokens: 20, stop: ['a', 'b'] })).toEqual({ max_tokens: 20, stop: ['a', 'b'] });
  });

  it("leave the job's parameter when they are empty", () => {
    expect(parametersOf({ max_tokens: '', stop: null })).toBeNull();
  });

  it('fail the row when the service would refuse them', () => {
    const request = rowRequest(row({ max_tokens: 'many', stop: [] }), plan(job));
    expect(request).toEqual(
      failed('invalid_parameters', expect.stringMatching(/max_tokens .*"many"; stop .*/)),
    );
  });
});

describe('a row with a body', () => {
  it('overrides the prompt and the parameters, and not the deployment', () => {
    const body = { prompt: 'own', max_tokens: 7, model: 'lm-4' };
    expect(rowRequest(row({ body }), plan({ prompt: 'job' }))).toEqual({
      kind: 'send',
      prompt: 'own',
      parameters: { max_tokens: 7 },
    });
    const job = { prompt: 'job', rowParameters: ['max_tokens'] as (keyof Parameters)[] };
    expect(rowRequest(row({ body: { max_tokens: 7 }, max_tokens: 9 }), plan(job))).toMatchObject({
      prompt: 'job',
      parameters: { max_tokens: 7 },
    });
  });

  it('fails when the body holds what the service would refuse', () => {
    expect(rowRequest(row({ body: { prompt: 'x', temperature: 3, streem: true } }), plan())).toEqual(
      failed('invalid_parameters', expect.stringMatching(/temperature .* 3.*streem /)),
    );
    expect(rowRequest(row({ body: { prompt: ['a'] } }), plan())).toEqual(failed('invalid_parameters'));
    const odd: Json = JSON.parse('{"prompt": "x", "__proto__": {"max_tokens": 1}}');
    expect(rowRequest(row({ body: odd }), plan())).toEqual(failed('invalid_parameters'));
  });

  it('fails when its url is of another operation, with and without /v1', () => {
    const sent = (url: Json) => rowRequest(row({ body: { prompt: 'x' }, url }), plan()).kind;
    // A column of this name may be of any other kind.
    for (const url of ['/v1/completions', '/completions', 'https://a.example/page', 7, null])
      expect([url, sent(url)]).toEqual([url, 'send']);
    for (const url of ['/v1/chat/completions', '/v1/responses', '/embeddings', '/v1/v1/completions', '/'])
      expect(rowRequest(row({ body: { prompt: 'x' }, url }), plan())).toEqual(
        failed(
          'url_mismatch',
          `the url of the row is "${url}", and the job calls /v1/completions (service.operation: completions)`,
        ),
      );
    expect(rowRequest(row({ body: 'mail', url: '/v1/responses' }), plan({ prompt: 'x' })).kind).toBe('send');
  });

  it('is an ordinary column when it is no object, or when the template reads it', () => {
    expect(rowRequest(row({ body: 'mail', review: 'r' }), plan({ prompt: '{{review}}' }))).toMatchObject({
      prompt: 'r',
    });
    expect(rowRequest(row({ body: { title: 't' } }), plan({ prompt: '{{body.title}}' }))).toMatchObject({
      prompt: 't',
    });
  });
});

describe('a plan is refused', () => {
  it('without any prompt', () => {
    expect(() => plan({}, { columns: ['review'], format: csv })).toThrow(
      'the job has no prompt, and in.jsonl has no column "prompt"',
    );
    expect(() => plan({}, { columns: ['body'], format: csv })).toThrow(UsageError);
    expect(plan({}, { columns: ['body'], format: jsonl }).template).toBeNull();
  });

  it('for columns that the input does not have', () => {
    expect(() => plan({ require: ['reveiw'] })).toThrow(
      'input.require names "reveiw", but in.jsonl has no such column; did you mean "review"?',
    );
    expect(() => plan({ rowParameters: ['temperature'] })).toThrow('row_parameters names "temperature"');
  });
});
