import { NO_TOKENS } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import type { Parameters, Tokens } from '../model.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { Endpoint, type ServiceAccess, type ServiceRequest } from '../service/endpoint.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { type AdvertisedQuota, advertisedQuota, type Exchange } from '../service/exchange.js';
import { StopStreak } from '../service/stop-streak.js';
import type { Unsettled, Verdict } from '../service/verdict.js';
import { withRowUsage } from './row-usage.js';
import { TokenRatio } from './token-ratio.js';

/** An exchange with the service that has ended: numbers and ids, and never a prompt, an answer or a key. */
export interface CallEnded {
  readonly type: 'call ended';
  readonly run: string;
  /** Number of the first of its rows, and how many they are: 0 for a plain call, which is for none. */
  readonly row: number;
  readonly rows: number;
  /** Number of this attempt for the rows, from 1. */
  readonly attempt: number;
  /** HTTP status, or the code of what kept it from an answer. */
  readonly status: string;
  readonly latency_ms: number;
}

/** What a call is for. */
type CallFor = Pick<CallEnded, 'run' | 'row' | 'rows' | 'attempt'>;

/** Counts for a run. @param by 1 where it is absent */
type CountCall = (run: string, what: 'sent' | 'retried' | 'rate_limited' | keyof Tokens, by?: number) => void;

/**
 * Calls the service for rows. Only the environment of this process says where: of a chunk, it uses the
 * deployment and what shapes the request, never an address (fault 58).
 */
export class Caller {
  /** A run has one, a worker of many runs has few. */
  readonly #endpoints = new Map<string, Endpoint>();
  /** The same, by the object that a chunk has. */
  readonly #endpointOf = new WeakMap<EndpointSpec, Endpoint>();
  readonly #streak: StopStreak;
  readonly #ratio = new TokenRatio();
  /** Rows that had no room alone. They have none beside others either, and are no reason to call fewer at once. */
  readonly #tooLarge = new Set<string>();
  #inFlight = 0;
  /** When more than one call was in flight last. */
  #crowdedAt = Number.NEGATIVE_INFINITY;
  #advertised: AdvertisedQuota = { requestsPerMinute: null, tokensPerMinute: null };

  constructor(
    private readonly access: ServiceAccess,
    /** Most calls in flight at once. */
    private readonly concurrency: number,
    /** False while nothing ever answered: then a failure to connect is a wrong address rather than an outage. */
    reached: boolean,
    /** Gets everything but the first exchange of each call, which was reserved, and counted with that. */
    private readonly count: CountCall,
    /** Told once, without the key, when the service refuses one and the next takes over. */
    private readonly onKeyRefused: () => void,
    private readonly onCall: (call: CallEnded) => void = () => {},
  ) {
    this.#streak = new StopStreak(reached);
  }

  /** Calls that went out and have not ended. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** What the service last said of its quota. */
  get advertised(): AdvertisedQuota {
    return this.#advertised;
  }

  /**
   * Calls once for rows with equal parameters; again only with the other key, when the service refuses the first,
   * and in halves, when it refuses the whole request for the sake of one prompt: the culprit ends up alone, and its
   * neighbours are answered.
   *
   * @param attempt number of this attempt for the rows, from 1
   * @param isCounted whether the first exchange is counted already. @default true
   * @returns a verdict for each row, in their order
   */
  async call(
    chunk: Chunk,
    rows: readonly ChunkRow[],
    attempt: number,
    isCounted = true,
  ): Promise<readonly Verdict[]> {
    const prompts = rows.map(({ prompt }) => prompt);
    // Rows that share a request have equal ones.
    const ownFields = Object.keys(rows[0]?.parameters ?? {});
    const request = { prompts, parameters: parametersOf(chunk, rows), ownFields };
    const endpoint = this.#endpoint(chunk.endpoint);
    const of = { run: chunk.run, row: rows[0]?.row ?? chunk.first, rows: rows.length, attempt };
    const startedAt = steadyNow();
    const exchange = await this.#exchange(of, endpoint, request, isCounted);
    const name = `${chunk.run}:${rows[0]?.row}`;
    const isAlone = rows.length === 1 && (this.#crowdedAt < startedAt || this.#tooLarge.has(name));
    if (exchange === null) return rows.map(() => NO_KEY_LEFT);
    if (exchange.kind === 'response') this.#advertised = advertisedQuota(exchange);
    const judged = endpoint.verdicts(exchange, request, attempt);
    const inStreak = this.#streak.judge(name, judged);
    const verdicts = isAlone ? inStreak : inStreak.map(besideOthers);
    const [first] = verdicts;
    if (first?.kind === 'retry' && first.noRoom) {
      if (this.#tooLarge.size >= MOST_TOO_LARGE) this.#tooLarge.clear();
      this.#tooLarge.add(name);
    }
    if (first?.kind === 'wait') this.count(chunk.run, 'rate_limited');

    const refused = exchange.kind === 'response' && exchange.status >= 400 && first?.kind === 'final';
    if (!refused || rows.length === 1)
      return withRowUsage(verdicts, rows, request.parameters, chunk.endpoint, this.#ratio);
    const half = Math.ceil(rows.length / 2);
    const done = await this.call(chunk, rows.slice(0, half), attempt, false);
    const stopped = done.find(({ kind }) => kind === 'wait' || kind === 'stop');
    const rest = rows.slice(half);
    return [...done, ...(stopped ? rest.map(() => stopped) : await this.call(chunk, rest, attempt, false))];
  }

  /**
   * Whether the deployment of a chunk answers a call that nothing is wrong with. It takes a few tokens, which belong to no row:
   * a budget counts them.
   */
  async answersPlain({ run, first, endpoint: spec }: Chunk): Promise<boolean> {
    const endpoint = this.#endpoint(spec);
    const of = { run, row: first, rows: 0, attempt: 1 };
    const exchange = await this.#exchange(of, endpoint, PLAIN, false);
    const [verdict] = exchange === null ? [] : endpoint.verdicts(exchange, PLAIN, 1);
    if (verdict?.kind !== 'final' || verdict.outcome.status === 'failed') return false;
    const { prompt_tokens, completion_tokens } = verdict.outcome.completion?.usage ?? NO_TOKENS;
    this.count(run, 'prompt_tokens', prompt_tokens);
    this.count(run, 'completion_tokens', completion_tokens);
    return true;
  }

  /** One exchange under a key that the service takes; null when it refuses every one. */
  async #exchange(
    of: CallFor,
    endpoint: Endpoint,
    request: ServiceRequest,
    isCounted: boolean,
  ): Promise<Exchange | null> {
    const { keys } = this.access;
    let refusal: Exchange | null = null;
    for (let key = keys.current(); key !== null; key = keys.after(key)) {
      if (refusal !== null) this.count(of.run, 'retried');
      if (refusal !== null || !isCounted) this.count(of.run, 'sent');
      if (++this.#inFlight > 1) this.#crowdedAt = steadyNow();
      let exchange: Exchange;
      try {
        exchange = await endpoint.call(request, key);
      } finally {
        if (this.#inFlight-- > 1) this.#crowdedAt = steadyNow();
      }
      const status = exchange.kind === 'response' ? String(exchange.status) : exchange.code;
      const { run, row, rows, attempt } = of;
      this.onCall({ type: 'call ended', run, row, rows, attempt, status, latency_ms: exchange.latency_ms });
      if (exchange.kind === 'failure' || exchange.status !== 401) {
        if (exchange.kind === 'response' && exchange.status < 300) keys.took(key);
        return exchange;
      }
      refusal = exchange;
      if (keys.refuse(key) && keys.current() !== null) this.onKeyRefused();
    }
    return keys.current() === null ? null : refusal;
  }

  #endpoint(spec: EndpointSpec): Endpoint {
    let endpoint = this.#endpointOf.get(spec);
    if (endpoint !== undefined) return endpoint;
    const form = JSON.stringify(spec);
    endpoint = this.#endpoints.get(form) ?? new Endpoint(this.access.address, spec, this.concurrency);
    this.#endpoints.set(form, endpoint);
    this.#endpointOf.set(spec, endpoint);
    return endpoint;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#endpoints.values()].map((endpoint) => endpoint.close()));
  }
}

/** Rows that are remembered as too large; then it begins again. */
const MOST_TOO_LARGE = 1_000;

/** What a verdict on a call means that was not the only one under way. */
const besideOthers = (verdict: Verdict): Verdict =>
  verdict.kind === 'retry' && verdict.noRoom ? { kind: 'no_room', fault: verdict.fault } : verdict;

/** One short word, and one token back. */
const PLAIN: ServiceRequest = { prompts: ['Hello'], parameters: { max_tokens: 1 } };

/** Rows that share a request have equal parameters. */
export const parametersOf = (chunk: Chunk, [first]: readonly ChunkRow[]): Parameters =>
  first?.parameters ? { ...chunk.parameters, ...first.parameters } : chunk.parameters;

const NO_KEY_LEFT: Unsettled = {
  kind: 'stop',
  fault: {
    code: 'unauthorized',
    message:
      'the service refuses every key (HTTP 401). ' +
      'Set PROMPTMILL_API_KEY to a key of this resource, and check that PROMPTMILL_BASE_URL is its address.',
  },
  latency_ms: 0,
  connected: true,
  possiblyBilled: false,
};
