import { UsageError } from '../errors.js';
import type { Parameters } from '../model.js';
import { type Client, createClient } from './client.js';
import type { EndpointSpec } from './endpoint-spec.js';
import type { Exchange } from './exchange.js';
import type { KeyRing } from './keys.js';
import { completions, type Operation } from './operation.js';
import { DEFAULT_MAX_TOKENS } from './parameters.js';
import type { ServiceProxy } from './proxy.js';
import { type Verdict, verdicts } from './verdict.js';

/** The address of the service, out of the environment of the process that calls it. */
export interface ServiceAddress {
  /** Value of `PROMPTMILL_BASE_URL`. */
  readonly baseUrl: string | undefined;
  /** First path segment of the service; style `deployments` only. */
  readonly segment: string;
  /** The proxy on the way there. @default none */
  readonly proxy?: ServiceProxy | null;
}

/** How this process reaches the service. */
export interface ServiceAccess {
  readonly address: ServiceAddress;
  readonly keys: KeyRing;
}

/** What is asked in one call. */
export interface ServiceRequest {
  readonly prompts: readonly string[];
  /** Sent as they are given; the service knows its own defaults. */
  readonly parameters: Parameters;
  /** Which of them the row has of its own. @default none */
  readonly ownFields?: readonly string[];
}

/** How every endpoint is asked. */
const OPERATION: Operation = completions;

/** One deployment as this process calls it: where it is, how it is asked, and what its answers mean. */
export class Endpoint {
  readonly #spec: EndpointSpec;
  readonly #path: string;
  readonly #client: Client;
  /** What requests have besides their prompts, encoded, by their parameters: rows without their own share an object. */
  readonly #fields = new WeakMap<Parameters, string>();

  /**
   * @param connections most calls at once
   * @throws UsageError when the address cannot be used
   */
  constructor(address: ServiceAddress, spec: EndpointSpec, connections: number) {
    this.#spec = spec;
    const url = callUrl(address, spec);
    this.#path = new URL(url).pathname;
    this.#client = createClient({
      url,
      bearer: spec.style === 'openai',
      connections,
      timeoutMs: spec.timeoutMs,
      proxy: address.proxy,
    });
  }

  /** Makes one call. Never rejects: what went wrong is in the exchange. */
  call(request: ServiceRequest, key: string): Promise<Exchange> {
    const { parameters } = request;
    let fields = this.#fields.get(parameters);
    if (fields === undefined) {
      fields = encodedFields(parameters, this.#spec);
      this.#fields.set(parameters, fields);
    }
    return this.#client.call(requestBody(request, this.#spec, fields), key);
  }

  /**
   * What an exchange means for each prompt of its request.
   * @param attempts made for its rows, this one included
   */
  verdicts(
    exchange: Exchange,
    { prompts, parameters, ownFields = [] }: ServiceRequest,
    attempts: number,
  ): readonly Verdict[] {
    const withLogprobs = typeof parameters.logprobs === 'number';
    const choices = parameters.n ?? 1;
    const operation = OPERATION;
    const path = this.#path;
    const asked = { prompts: prompts.length, choices, withLogprobs, operation, ownFields, path };
    return verdicts(exchange, Date.now(), asked, attempts);
  }

  /** Closes all connections; calls in flight end as `aborted`. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

/**
 * The address to call.
 * @throws UsageError when the base URL is missing or is no plain http(s) address
 */
export function callUrl(
  { baseUrl, segment }: ServiceAddress,
  { deployment, apiVersion, style }: Omit<EndpointSpec, 'timeoutMs'>,
): string {
  const base = plainBase(baseUrl);
  if (style === 'openai') return `${base}${base.endsWith('/v1') ? '' : '/v1'}/${OPERATION.path}`;
  const query = new URLSearchParams({ 'api-version': apiVersion });
  return `${base}/${pathSegment(segment)}/deployments/${pathSegment(deployment)}/${OPERATION.path}?${query}`;
}

/**
 * The body of one call.
 * @param fields those besides the prompts, encoded
 */
export function requestBody(
  { prompts, parameters }: ServiceRequest,
  spec: Pick<EndpointSpec, 'deployment' | 'style'>,
  fields = encodedFields(parameters, spec),
): string {
  const asked = JSON.stringify(OPERATION.prompts(prompts.map((prompt) => prompt.toWellFormed())));
  return fields === '{}' ? asked : `${fields.slice(0, -1)},${asked.slice(1)}`;
}

/**
 * The fields of a request besides its prompts, as JSON. Its texts are sent well-formed: half of a surrogate pair is no UTF-8, and some servers answer it with
 * 500. Servers of the style `openai` have defaults of their own, so they are told what the hosted service would take: where
 * the job says no `max_tokens`, some would generate without an end.
 */
function encodedFields(
  parameters: Parameters,
  { deployment, style }: Pick<EndpointSpec, 'deployment' | 'style'>,
): string {
  const isHosted = style === 'deployments';
  // No spread: an object that begins with one takes three times as long to make and to write.
  const sent: { [field: string]: unknown } = isHosted ? {} : { max_tokens: DEFAULT_MAX_TOKENS };
  for (const [name, value] of Object.entries(parameters))
    if (isHosted || value !== null) sent[name] = wellFormed(value);
  if (isHosted) return JSON.stringify(sent);
  // Some servers of this shape take `stop` as a list only.
  if (typeof sent['stop'] === 'string') sent['stop'] = [sent['stop']];
  return JSON.stringify(Object.assign(sent, { model: deployment }));
}

/** The value of a field as it is sent: `suffix`, `user`, and `stop`, which may be a list, are texts. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  return Array.isArray(value) ? value.map(wellFormed) : value;
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
