import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import type { Parameters } from '../../src/core/model.js';
import { callUrl, type ServiceAddress } from '../../src/service/address.js';
import { deploymentProblem, modelOf } from '../../src/service/catalogue.js';
import { requestBody } from '../../src/service/endpoint.js';
import type { EndpointSpec } from '../../src/service/endpoint-spec.js';

const of = (changes: Partial<EndpointSpec>): EndpointSpec => ({
  name: 'one',
  operation: 'completions',
  deployment: 'lm-35-turbo-instruct',
  apiVersion: '2023-09-15-preview',
  style: 'deployments',
  timeoutMs: 1000,
  ...changes,
});

const urlOf = ({ baseUrl, segment, ...changes }: Partial<ServiceAddress & EndpointSpec>): string =>
  callUrl({ baseUrl, segment: segment ?? 'openai' }, of(changes));

describe('the address to call', () => {
  it.each([
    [
      {},
      'https://example.net/openai/deployments/lm-35-turbo-instruct/completions?api-version=2023-09-15-preview',
    ],
    [
      { baseUrl: 'http://127.0.0.1:8080/gate/' },
      'http://127.0.0.1:8080/gate/openai/deployments/lm-35-turbo-instruct/completions?api-version=2023-09-15-preview',
    ],
    [
      { segment: 'a b', deployment: '../x?y#z', apiVersion: '1&x=2' },
      'https://example.net/a%20b/deployments/..%2Fx%3Fy%23z/completions?api-version=1%26x%3D2',
    ],
    [{ style: 'openai' as const }, 'https://example.net/v1/completions'],
    [{ style: 'openai' as const, baseUrl: 'https://example.net/v1/' }, 'https://example.net/v1/completions'],
  ])('of %j', (changes, url) => {
    expect(urlOf({ baseUrl: 'https://example.net', ...changes })).toBe(url);
  });

  it.each(['.', '..'])('has no deployment %s, which would climb to another path', (deployment) => {
    expect(() => urlOf({ baseUrl: 'https://example.net', deployment })).toThrow(UsageError);
  });

  it.each([
    [undefined, 'PROMPTMILL_BASE_URL is not set'],
    ['example.net', 'PROMPTMILL_BASE_URL is no http or https address: example.net'],
    ['ftp://example.net', 'PROMPTMILL_BASE_URL is no http or https address: ftp://example.net'],
    [
      'https://user:hidden@example.net',
      'PROMPTMILL_BASE_URL must not hold a user name or password: https://example.net',
    ],
    ['user:hidden@example.net', 'PROMPTMILL_BASE_URL is no http or https address: example.net'],
    [
      'https://example.net?key=hidden',
      'PROMPTMILL_BASE_URL must not have a query or fragment: https://example.net',
    ],
    [
      'https://example.net#hidden',
      'PROMPTMILL_BASE_URL must not have a query or fragment: https://example.net',
    ],
  ])('refuses the base %s without showing a secret', (baseUrl, message) => {
    expect(() => urlOf({ baseUrl })).toThrow(expect.objectContaining({ message }));
  });
});

describe('the body', () => {
  it('is the prompt and the parameters as given', () => {
    const text = requestBody(
      { prompts: ['p'], parameters: { max_tokens: 5, stop: '\n', temperature: null } },
      of({}),
    );
    expect(JSON.parse(text)).toEqual({ prompt: 'p', max_tokens: 5, stop: '\n', temperature: null });
  });

  it('names the model, and lists the stop text, for servers of the same shape', () => {
    const text = requestBody(
      { prompts: ['p'], parameters: { stop: '\n' } },
      of({ deployment: 'm', style: 'openai' }),
    );
    expect(JSON.parse(text)).toEqual({ model: 'm', prompt: 'p', stop: ['\n'], max_tokens: 16 });
  });

  it('has no null and always max_tokens for them: their default may be without an end', () => {
    const body = (parameters: Parameters) =>
      JSON.parse(requestBody({ prompts: ['p'], parameters }, of({ deployment: 'm', style: 'openai' })));
    expect(body({ max_tokens: null, suffix: null, temperature: 0 })).toEqual({
      ...{ model: 'm', prompt: 'p', max_tokens: 16, temperature: 0 },
    });
    expect(body({ max_tokens: 0 })).toMatchObject({ max_tokens: 0 });
  });

  it('fault 8: carries NUL and emoji unchanged, and a lone surrogate as U+FFFD, because it is no text', () => {
    const text = requestBody({ prompts: ['a\u0000b\ud800c\u{1f600}'], parameters: {} }, of({}));
    expect(JSON.parse(text)).toEqual({ prompt: 'a\u0000b\ufffdc\u{1f600}' });
  });

  it.each(['deployments', 'openai'] as const)(
    'fault 8: of style %s, has no half of a surrogate pair in its other texts either',
    (style) => {
      const parameters: Parameters = { suffix: 'x\ud800', user: '\udfff', stop: ['\ud800', '.'] };
      const text = requestBody({ prompts: ['p'], parameters }, of({ style }));
      expect(JSON.parse(text)).toMatchObject({ suffix: 'x\ufffd', user: '\ufffd', stop: ['\ufffd', '.'] });
    },
  );
});

describe('the catalogue', () => {
  it('knows the models of the service, and takes any other deployment name as it comes', () => {
    expect(modelOf('text-davinci-003')).toMatchObject({ contextWindow: 4097, encoding: 'p50k_base' });
    expect(modelOf('my-own-name')).toBeNull();
    expect(deploymentProblem(of({ deployment: 'my-own-name' }))).toBeNull();
    expect(deploymentProblem(of({}))).toBeNull();
  });

  it.each(['lm-35-turbo', 'lm-35-turbo-16k', 'lm-4', 'lm-4-32k'])(
    'refuses %s, and says which fit',
    (name) => {
      expect(deploymentProblem(of({ deployment: name }))).toBe(
        `${name} is a conversation model, and the job calls the completions operation: write service: { operation: chat }, or use lm-35-turbo-instruct or text-davinci-003`,
      );
      expect(deploymentProblem(of({ deployment: name, operation: 'chat' }))).toBeNull();
    },
  );
});
