import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import type { Parameters } from '../core/model.js';
import { NO_TOKENS } from '../pace/budget.js';
import type { ChunkAt, ChunkRow } from '../queue/chunk.js';
import { Endpoint, type ServiceAccess, type ServiceRequest } from '../service/endpoint.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { type AdvertisedQuota, advertisedQuota, type Exchange } from '../service/exchange.js';
import type { Tier } from '../service/response.js';
import { StopStreak } from '../service/stop-streak.js';
import { refusesOlderLimit, type Unsettled, type Verdict } from '../service/verdict.js';
import type { Batcher } from './batcher.js';
import { withRowUsage } from './row-usage.js';
import { TokenRatio } from './token-ratio.js';

/** Numbers and ids only: never a prompt, an answer or a key. */
export interface CallEnded {
  readonly type: 'call ended';
  readonly run: string;
  /** The first of its rows; `rows` is 0 for a plain call, made for no row. */
  readonly row: number;
  readonly rows: number;
  /** From 1. */
  readonly attempt: number;
  /** Of a job with several. */
  readonly endpoint?: string;
  /** HTTP status, or the error code when there was no response. */
  readonly status: string;
  readonly latency_ms: number;
}

type CallFor = Pick<CallEnded, 'run' | 'row' | 'rows' | 'attempt'>;

/** What a process calls with. */
export interface CallAccess extends ServiceAccess {
  /** Name of the endpoint, where there are several. */
  readonly endpoint?: string;
  readonly concurrency: number;
  readonly batcher: Batcher;
  readonly onCall: (call: CallEnded) => void;
  readonly log: Logger;
}

/** Calls the service for rows. The address is this process's own, never taken from a chunk (fault 58). */
export class Caller {
  readonly #endpoints = new Map<string, Endpoint>();
  /** The same, by the chunk's spec object: saves the JSON. */
  readonly #endpointOf = new WeakMap<EndpointSpec, Endpoint>();
  readonly #streak: StopStreak;
  readonly #ratio = new TokenRatio();
  /** Rows that had no room even when alone: retrying them is no reason to lower the concurrency. */
  readonly #tooLarge = new Set<string>();
  #inFlight = 0;
  /** When more than one call was last in flight. */
  #crowdedAt = Number.NEGATIVE_INFINITY;
  #advertised: AdvertisedQuota = { requestsPerMinute: null, tokensPerMinute: null };

  /** @param reached false while nothing ever answered: then a failed connection means a wrong address */
  constructor(
    private readonly access: CallAccess,
    reached: boolean,
  ) {
    this.#streak = new StopStreak(reached);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get advertised(): AdvertisedQuota {
    return this.#advertised;
  }

  /**
   * Calls once for rows with equal parameters. Again only with the other key, when the service refuses the
   * first, and in halves, when one prompt gets the request refused: the culprit ends up alone.
   * @param attempt from 1
   * @param tier in a job that asks for one
   * @param isCounted whether the first exchange is counted already, with the reservation. @default true
   * @returns a verdict for each row, in their order
   */
  async call(
    chunk: ChunkAt,
    rows: readonly ChunkRow[],
    attempt: number,
    tier?: Tier,
    isCounted = true,
  ): Promise<readonly Verdict[]> {
    const prompts = rows.map(({ prompt }) => prompt);
    // Rows that share a request have equal parameters.
    const ownFields = Object.keys(rows[0]?.parameters ?? {});
    const parameters = parametersOf(chunk, rows);
    const request = {
      prompts,
      parameters: tier === 'flex' ? inFlex(parameters) : parameters,
      ownFields,
      tier,
    };
    const endpoint = this.#endpoint(chunk.endpoint);
    const of = { run: chunk.run, row: rows[0]?.row ?? chunk.first, rows: rows.length, attempt };
    const startedAt = steadyNow();
    const exchange = await this.#exchange(of, endpoint, request, isCounted);
    const name = `${chunk.run}:${rows[0]?.row}`;
    const isAlone = rows.length === 1 && (this.#crowdedAt < startedAt || this.#tooLarge.has(name));
    if (exchange === null) return rows.map(() => noKeyLeft(this.access.keys.variable));
    if (exchange.kind === 'response') this.#advertised = advertisedQuota(exchange);
    const judged = endpoint.verdicts(exchange, request, attempt);
    const inStreak = this.#streak.judge(name, judged);
    const verdicts = isAlone ? inStreak : inStreak.map(besideOthers);
    const [first] = verdicts;
    if (first?.kind === 'retry' && first.noRoom) {
      if (this.#tooLarge.size >= MOST_TOO_LARGE) this.#tooLarge.clear();
      this.#tooLarge.add(name);
    }
    const { batcher, endpoint: named } = this.access;
    if (first?.kind === 'wait') batcher.count(chunk.run, 'rate_limited');
    if (first?.kind === 'wait' && named !== undefined) batcher.count(chunk.run, `rate_limited@${named}`);

    const refused = exchange.kind === 'response' && exchange.status >= 400 && first?.kind === 'final';
    if (!refused || rows.length === 1)
      return withRowUsage(verdicts, rows, request.parameters, chunk.endpoint, this.#ratio);
    const half = Math.ceil(rows.length / 2);
    const done = await this.call(chunk, rows.slice(0, half), attempt, tier, false);
    const stopped = done.find(({ kind }) => kind === 'wait' || kind === 'stop');
    const rest = rows.slice(half);
    return [
      ...done,
      ...(stopped ? rest.map(() => stopped) : await this.call(chunk, rest, attempt, tier, false)),
    ];
  }

  /** Whether the deployment answers a harmless call. Only the budget counts its few tokens. */
  async answersPlain({ run, first, endpoint: spec }: ChunkAt): Promise<boolean> {
    const endpoint = this.#endpoint(spec);
    const of = { run, row: first, rows: 0, attempt: 1 };
    const exchange = await this.#exchange(of, endpoint, PLAIN, false);
    const [verdict] = exchange === null ? [] : endpoint.verdicts(exchange, PLAIN, 1);
    if (verdict?.kind !== 'final') return false;
    const { status, completion } = verdict.outcome;
    if (status === 'failed' && completion === undefined) return false;
    const { prompt_tokens, completion_tokens } = completion?.usage ?? NO_TOKENS;
    this.access.batcher.count(run, 'prompt_tokens', prompt_tokens);
    this.access.batcher.count(run, 'completion_tokens', completion_tokens);
    return true;
  }

  /**
   * One exchange, with a key and a name of the limit that the service accepts; null when it refuses all keys. What it
   * refuses is not billed, so it is called again under the same grant.
   */
  async #exchange(
    of: CallFor,
    endpoint: Endpoint,
    request: ServiceRequest,
    isCounted: boolean,
  ): Promise<Exchange | null> {
    const { keys, batcher, log, onCall, endpoint: name } = this.access;
    const named = name === undefined ? {} : { endpoint: name };
    let refusal: Exchange | null = null;
    let isAgain = false;
    for (let key = keys.current(); key !== null; isAgain = true) {
      if (isAgain) batcher.count(of.run, 'retried');
      if (isAgain || !isCounted) batcher.count(of.run, 'sent');
      if (name !== undefined) batcher.count(of.run, `sent@${name}`);
      const hadOlderLimit = endpoint.hasOlderLimit(request);
      if (++this.#inFlight > 1) this.#crowdedAt = steadyNow();
      let exchange: Exchange;
      try {
        exchange = await endpoint.call(request, key);
      } finally {
        if (this.#inFlight-- > 1) this.#crowdedAt = steadyNow();
      }
      const status = exchange.kind === 'response' ? String(exchange.status) : exchange.code;
      const { run, row, rows, attempt } = of;
      const { latency_ms } = exchange;
      onCall({ type: 'call ended', run, row, rows, attempt, ...named, status, latency_ms });
      if (hadOlderLimit && refusesOlderLimit(exchange)) {
        if (endpoint.useNewerLimit()) log.warn(NEWER_LIMIT);
        continue;
      }
      if (exchange.kind === 'failure' || exchange.status !== 401) {
        if (exchange.kind === 'response' && exchange.status < 300) keys.took(key);
        return exchange;
      }
      refusal = exchange;
      if (keys.refuse(key) && keys.current() !== null)
        log.warn('the service refused the first key; going on with the second');
      key = keys.after(key);
    }
    return keys.current() === null ? null : refusal;
  }

  #endpoint(spec: EndpointSpec): Endpoint {
    let endpoint = this.#endpointOf.get(spec);
    if (endpoint !== undefined) return endpoint;
    const form = JSON.stringify(spec);
    endpoint = this.#endpoints.get(form) ?? new Endpoint(this.access, spec, this.access.concurrency);
    this.#endpoints.set(form, endpoint);
    this.#endpointOf.set(spec, endpoint);
    return endpoint;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#endpoints.values()].map((endpoint) => endpoint.close()));
  }
}

const NEWER_LIMIT =
  'the model refuses max_tokens: from now on its calls have max_completion_tokens, which the job may name itself';

/** Rows remembered as too large; at this number the set is cleared. */
const MOST_TOO_LARGE = 1_000;

/** With other calls in flight, "no room" does not blame the row. */
const besideOthers = (verdict: Verdict): Verdict =>
  verdict.kind === 'retry' && verdict.noRoom ? { kind: 'no_room', problem: verdict.problem } : verdict;

const PLAIN: ServiceRequest = { prompts: ['Hello'], parameters: { max_tokens: 1 } };

export const parametersOf = (chunk: ChunkAt, [first]: readonly ChunkRow[]): Parameters =>
  first?.parameters ? { ...chunk.parameters, ...first.parameters } : chunk.parameters;

/** Rows without parameters of their own share one object: its encoded form is kept. */
const flexed = new WeakMap<Parameters, Parameters>();

function inFlex(parameters: Parameters): Parameters {
  const known = flexed.get(parameters);
  if (known !== undefined) return known;
  const asked = { ...parameters, service_tier: 'flex' };
  flexed.set(parameters, asked);
  return asked;
}

const noKeyLeft = (variable: string): Unsettled => ({
  kind: 'stop',
  problem: {
    code: 'unauthorized',
    message:
      'the service refuses every key (HTTP 401). ' +
      `Set ${variable} to a key of this resource, and check that PROMPTMILL_BASE_URL is its address.`,
  },
  latency_ms: 0,
  connected: true,
  possiblyBilled: false,
});
