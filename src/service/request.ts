import { UsageError } from '../errors.js';
import type { Parameters } from '../model.js';
import type { ServiceProxy } from './proxy.js';

/**
 * Shape of the endpoint. `deployments`: the deployment in the path, the key in an `api-key` header.
 * `openai`: servers of the same shape, with bearer authentication and the model in the body.
 */
export type EndpointStyle = 'deployments' | 'openai';

/** The address of the service, out of the environment of the process that calls it. */
export interface ServiceAddress {
  readonly baseUrl: string | undefined;
  readonly segment: string;
  /** The proxy on the way there. @default none */
  readonly proxy?: ServiceProxy | null;
}

/** Where the completions operation of one deployment lives. */
export interface Endpoint {
  /** Value of `PROMPTMILL_BASE_URL`. */
  readonly baseUrl: string | undefined;
  /** First path segment of the service; style `deployments` only. */
  readonly segment: string;
  readonly deployment: string;
  readonly apiVersion: string;
  readonly style: EndpointStyle;
}

/**
 * The address to call.
 * @throws UsageError when the base URL is missing or is no plain http(s) address
 */
export function completionsUrl({ baseUrl, segment, deployment, apiVersion, style }: Endpoint): string {
  const base = plainBase(baseUrl);
  if (style === 'openai') return `${base}${base.endsWith('/v1') ? '' : '/v1'}/completions`;
  const query = new URLSearchParams({ 'api-version': apiVersion });
  return `${base}/${pathSegment(segment)}/deployments/${pathSegment(deployment)}/completions?${query}`;
}

function plainBase(value: string | undefined): string {
  if (value === undefined) {
    throw new UsageError(
      'base_url_missing',
      'PROMPTMILL_BASE_URL is not set',
      'Set it to the address of the service, for example https://example.net, or use --emulate.',
    );
  }
  const url = URL.canParse(value) ? new URL(value) : null;
  const problem =
    url === null || !/^https?:$/.test(url.protocol)
      ? 'is no http or https address'
      : url.username || url.password
        ? 'must not hold a user name or password'
        : /[?#]/.test(value)
          ? 'must not have a query or fragment'
          : null;
  if (url === null || problem !== null) {
    throw new UsageError(
      'bad_base_url',
      `PROMPTMILL_BASE_URL ${problem}: ${withoutSecrets(value)}`,
      'Give the address alone, for example https://example.net; keys go in PROMPTMILL_API_KEY.',
    );
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** Both the user part and the query of an address may hold a password or a key. */
const withoutSecrets = (url: string): string =>
  url.replace(/^([a-z]+:\/\/)?.*@/is, '$1').replace(/[?#].*$/s, '');

function pathSegment(name: string): string {
  // As a segment these two would climb to another path; no encoding prevents it.
  if (name === '.' || name === '..') throw new UsageError('bad_path_segment', `not a name: ${name}`);
  return encodeURIComponent(name);
}

/**
 * The body of one call. Its parameters are sent as they are given; the service knows its own defaults.
 * @param prompts one is sent as a text, because some servers take no list; several as a list
 */
export function requestBody(
  prompts: readonly string[],
  parameters: Parameters,
  style: EndpointStyle,
  model: string,
): string {
  const prompt = prompts.length === 1 ? prompts[0] : prompts;
  if (style === 'deployments') return JSON.stringify({ ...parameters, prompt });
  // Some servers of this shape take `stop` as a list only.
  const stop = typeof parameters.stop === 'string' ? { stop: [parameters.stop] } : {};
  return JSON.stringify({ ...parameters, ...stop, model, prompt });
}
