import type { Parameters, Prompt } from '../core/model.js';
import { callUrl, type ServiceAddress } from './address.js';
import { type Client, createClient } from './client.js';
import type { EndpointSpec } from './endpoint-spec.js';
import type { Exchange } from './exchange.js';
import type { KeyRing } from './keys.js';
import { operationOf } from './operation.js';
import { DEFAULT_MAX_TOKENS, listedLogprobs } from './parameters.js';
import type { Tier } from './response.js';
import { type Verdict, verdicts } from './verdict.js';

export interface ServiceAccess {
  readonly address: ServiceAddress;
  readonly keys: KeyRing;
  /** Makes the client of an endpoint. @default one that calls over HTTP; a test may answer itself */
  readonly connect?: typeof createClient | undefined;
}

/** An endpoint as a process calls it. */
export interface ServedEndpoint extends ServiceAccess {
  readonly name: string;
  readonly deployment: string;
  /** A minute, as the job states it; null where it does not. */
  readonly quota: { readonly requestsPerMinute: number | null; readonly tokensPerMinute: number | null };
}

export interface ServiceRequest {
  readonly prompts: readonly Prompt[];
  /** Sent unchanged: the service has its own defaults. */
  readonly parameters: Parameters;
  /** Names of the parameters set by the row itself. @default none */
  readonly ownFields?: readonly string[];
  /** In a job that asks for one. @default none */
  readonly tier?: Tier | undefined;
}

export class Endpoint {
  readonly #spec: EndpointSpec;
  readonly #path: string;
  readonly #client: Client;
  /** Encoded fields besides the prompts, by parameters object: rows without their own share one. */
  #fields = new WeakMap<Parameters, string>();
  /** The model refuses `max_tokens`: it wants `max_completion_tokens`. */
  #isNewer = false;

  /** @throws UsageError when the address cannot be used */
  constructor(
    { address, connect = createClient }: Pick<ServiceAccess, 'address' | 'connect'>,
    spec: EndpointSpec,
    connections: number,
  ) {
    this.#spec = spec;
    const url = callUrl(address, spec);
    this.#path = new URL(url).pathname;
    this.#client = connect({
      url,
      bearer: spec.style === 'openai',
      connections,
      timeoutMs: spec.timeoutMs,
      proxy: address.proxy,
    });
  }

  /** Whether the limit of the tokens would be sent as `max_tokens`, and might be sent as `max_completion_tokens`. */
  hasOlderLimit({ parameters }: ServiceRequest): boolean {
    return hasNewerLimit(this.#spec) && !this.#isNewer && !isNewlyNamed(parameters);
  }

  /** From now on the limit is sent as `max_completion_tokens`. @returns false when it was already */
  useNewerLimit(): boolean {
    if (this.#isNewer) return false;
    this.#isNewer = true;
    this.#fields = new WeakMap();
    return true;
  }

  /** Never rejects: errors are in the exchange. */
  call(request: ServiceRequest, key: string): Promise<Exchange> {
    const { parameters } = request;
    let fields = this.#fields.get(parameters);
    if (fields === undefined) {
      fields = encodedFields(parameters, this.#spec, this.#isNewer);
      this.#fields.set(parameters, fields);
    }
    return this.#client.call(requestBody(request, this.#spec, fields), key);
  }

  /** @param attempts calls made for its rows, including this one */
  verdicts(exchange: Exchange, request: ServiceRequest, attempts: number): readonly Verdict[] {
    return verdictsOf(exchange, request, this.#spec, attempts, this.#path);
  }

  /** Calls in flight end as `aborted`. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

/**
 * Needs no client: what came may have come from elsewhere.
 * @param attempts calls made for its rows, including this one
 * @param path in messages
 */
export function verdictsOf(
  exchange: Exchange,
  { prompts, parameters, ownFields = [], tier }: ServiceRequest,
  spec: EndpointSpec,
  attempts: number,
  path?: string,
): readonly Verdict[] {
  const withLogprobs = listedLogprobs(parameters) !== null;
  const choices = parameters.n ?? 1;
  const operation = operationOf(spec);
  const withSchema = parameters.response_format !== undefined;
  const expected = { prompts: prompts.length, choices, withLogprobs, withSchema };
  const asked = { ...expected, operation, ownFields, tier, ...(path !== undefined && { path }) };
  return verdicts(exchange, Date.now(), asked, attempts);
}

/** The request as a line of an input file has it: that names the model in every style. */
export function lineBody(request: ServiceRequest, spec: EndpointSpec, isNewer: boolean): string {
  const body = requestBody(request, spec, encodedFields(request.parameters, spec, isNewer));
  return spec.style === 'openai' ? body : `{"model":${JSON.stringify(spec.deployment)},${body.slice(1)}`;
}

export function requestBody(
  { prompts, parameters }: ServiceRequest,
  spec: Pick<EndpointSpec, 'operation' | 'deployment' | 'style'>,
  fields = encodedFields(parameters, spec, false),
): string {
  const asked = JSON.stringify(wellFormed(operationOf(spec).prompts(prompts)));
  return fields === '{}' ? asked : `${fields.slice(0, -1)},${asked.slice(1)}`;
}

/**
 * Makes texts well-formed: some servers answer half a surrogate pair with 500. Servers of style `openai` get
 * the hosted service's `max_tokens` default, since some generate without end when it is missing.
 */
function encodedFields(
  parameters: Parameters,
  { deployment, style }: Pick<EndpointSpec, 'deployment' | 'style'>,
  isNewer: boolean,
): string {
  const isHosted = style === 'deployments';
  // No spread: it makes creating and encoding the object three times slower.
  const sent: { [field: string]: unknown } = isHosted ? {} : { max_tokens: DEFAULT_MAX_TOKENS };
  for (const [name, value] of Object.entries(parameters))
    if (name !== 'extra_body' && (isHosted || value !== null)) sent[name] = wellFormed(value);
  if (isNewer || isNewlyNamed(parameters)) {
    sent['max_completion_tokens'] = sent['max_tokens'] ?? parameters.max_completion_tokens;
    delete sent['max_tokens'];
  }
  // Some servers accept `stop` only as a list.
  if (!isHosted && typeof sent['stop'] === 'string') sent['stop'] = [sent['stop']];
  return JSON.stringify(Object.assign(sent, parameters.extra_body, isHosted ? {} : { model: deployment }));
}

const hasNewerLimit = (spec: EndpointSpec): boolean =>
  Object.hasOwn(operationOf(spec).parameters.shape, 'max_completion_tokens');

/** Only reasoning models take an effort, and these refuse the older name. */
const isNewlyNamed = ({ max_completion_tokens, reasoning_effort }: Parameters): boolean =>
  max_completion_tokens !== undefined || typeof reasoning_effort === 'string';

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, wellFormed(each)]));
}
