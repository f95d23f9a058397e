import type { Fault, Parameters } from '../model.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { Endpoint, type ServiceAccess, type ServiceRequest } from '../service/endpoint.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { type AdvertisedQuota, advertisedQuota, type Exchange } from '../service/exchange.js';
import { StopStreak } from '../service/stop-streak.js';
import type { Verdict } from '../service/verdict.js';
import type { Counters } from '../store/counters.js';
import type { RowResult } from './row-result.js';
import { withRowUsage } from './row-usage.js';

/** Called for each thing worth counting. */
type Count = (what: keyof Counters, by?: number) => void;

/**
 * Calls the service for rows. Only the environment of this process says where: of a chunk, it uses the
 * deployment and what shapes the request, never an address (fault 58).
 */
export class Caller {
  /** A run has one, a worker of many runs has few. */
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #streak = new StopStreak();
  #advertised: AdvertisedQuota = { requestsPerMinute: null, tokensPerMinute: null };

  constructor(
    private readonly access: ServiceAccess,
    /** Most calls in flight at once. */
    private readonly concurrency: number,
    /** False while nothing ever answered: then a failure to connect is a wrong address rather than an outage. */
    private reached: boolean,
    /** Told once, without the key, when the service refuses one and the next takes over. */
    private readonly onKeyRefused: () => void,
    /** Told of each exchange: its HTTP status, or the code of what kept it from an answer. */
    private readonly onExchange: (status: string) => void = () => {},
  ) {}

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
   * @param count gets everything but the first exchange, which was reserved, and counted with that
   * @returns a result for each row, in their order
   */
  async call(
    chunk: Chunk,
    rows: readonly ChunkRow[],
    attempt: number,
    count: Count,
  ): Promise<readonly RowResult[]> {
    return this.#call(chunk, rows, attempt, count, true);
  }

  async #call(
    chunk: Chunk,
    rows: readonly ChunkRow[],
    attempt: number,
    count: Count,
    reserved: boolean,
  ): Promise<readonly RowResult[]> {
    const request = { prompts: rows.map(({ prompt }) => prompt), parameters: parametersOf(chunk, rows) };
    const endpoint = this.#endpoint(chunk.endpoint);
    const exchange = await this.#exchange(endpoint, request, count, reserved);
    if (exchange === null) return rows.map(() => ({ kind: 'stop', fault: NO_KEY_LEFT }));
    if (exchange.kind === 'response' || exchange.phase === 'exchange') this.reached = true;
    if (exchange.kind === 'response') this.#advertised = advertisedQuota(exchange);
    const judged = endpoint.verdicts(exchange, request);
    if (judged[0]?.kind === 'wait') count('rate_limited');
    const stops = this.#stops(chunk, rows, judged);

    const refused = exchange.kind === 'response' && exchange.status >= 400 && judged[0]?.kind === 'final';
    if (!refused || rows.length === 1) {
      const results = judged.map((each) => this.#result(each, attempt, exchange, stops));
      return await withRowUsage(results, rows, request.parameters, chunk.endpoint);
    }
    const half = Math.ceil(rows.length / 2);
    const first = await this.#call(chunk, rows.slice(0, half), attempt, count, false);
    const stopped = first.find((result) => result.kind === 'wait' || result.kind === 'stop');
    const rest = rows.slice(half);
    return [
      ...first,
      ...(stopped ? rest.map(() => stopped) : await this.#call(chunk, rest, attempt, count, false)),
    ];
  }

  /** One exchange under a key that the service takes; null when it refuses every one. */
  async #exchange(
    endpoint: Endpoint,
    request: ServiceRequest,
    count: Count,
    reserved: boolean,
  ): Promise<Exchange | null> {
    const { keys } = this.access;
    let counted = reserved;
    let refusal: Exchange | null = null;
    for (let key = keys.current(); key !== null; key = keys.after(key)) {
      if (refusal !== null) count('retried');
      if (!counted) count('sent');
      counted = false;
      const exchange = await endpoint.call(request, key);
      this.onExchange(exchange.kind === 'response' ? String(exchange.status) : exchange.code);
      if (exchange.kind === 'failure' || exchange.status !== 401) {
        if (exchange.kind === 'response' && exchange.status < 300) keys.took(key);
        return exchange;
      }
      refusal = exchange;
      if (keys.refuse(key) && keys.current() !== null) this.onKeyRefused();
    }
    return keys.current() === null ? null : refusal;
  }

  /** Whether an exchange stops the run. An answer to one of its rows is a good word for the service. */
  #stops({ run }: Chunk, rows: readonly ChunkRow[], judged: readonly Verdict[]): boolean {
    if (judged.some(({ kind }) => kind === 'final')) this.#streak.answered();
    if (judged.every((each) => each.kind === 'retry' && each.hint !== undefined)) {
      return this.#streak.stopsAfter(`${run}:${rows[0]?.row}`);
    }
    const stop = judged.find((each) => each.kind === 'stop');
    return stop?.kind === 'stop' && this.#streak.stops(stop.certainty);
  }

  #result(judged: Verdict, attempt: number, exchange: Exchange, stops: boolean): RowResult {
    switch (judged.kind) {
      case 'final': {
        const outcome = { ...judged.outcome, attempts: attempt };
        return { kind: 'settled', outcome, ...(judged.oddUsage && { oddUsage: 'counted' }) };
      }
      case 'retry':
        if (!this.reached) return { kind: 'stop', fault: unreachable(judged.fault) };
        if (stops) return halt(advised(judged.fault, judged.hint), judged.possiblyBilled);
        return again(exchange, judged.fault, judged.possiblyBilled, judged.alone);
      case 'wait':
        return { kind: 'wait', ms: judged.ms, fault: judged.fault };
      case 'refused-key':
        return again(exchange, judged.fault, false);
      case 'stop': {
        const fault = advised(judged.fault, judged.hint);
        const { possiblyBilled } = judged;
        return stops ? halt(fault, possiblyBilled) : again(exchange, fault, possiblyBilled);
      }
    }
  }

  #endpoint(spec: EndpointSpec): Endpoint {
    const form = JSON.stringify(spec);
    let endpoint = this.#endpoints.get(form);
    if (endpoint === undefined) {
      endpoint = new Endpoint(this.access.address, spec, this.concurrency);
      this.#endpoints.set(form, endpoint);
    }
    return endpoint;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#endpoints.values()].map((endpoint) => endpoint.close()));
  }
}

/** Rows that share a request have equal parameters. */
const parametersOf = (chunk: Chunk, [first]: readonly ChunkRow[]): Parameters =>
  first?.parameters ? { ...chunk.parameters, ...first.parameters } : chunk.parameters;

const again = (exchange: Exchange, fault: Fault, possiblyBilled: boolean, alone = false): RowResult => ({
  kind: 'retry',
  fault,
  latency_ms: exchange.latency_ms,
  connected: exchange.kind === 'response' || exchange.phase !== 'connect' || exchange.code === 'aborted',
  possiblyBilled,
  alone,
});

const halt = (fault: Fault, possiblyBilled: boolean): RowResult => ({ kind: 'stop', fault, possiblyBilled });

const advised = ({ code, message }: Fault, hint = ''): Fault => ({ code, message: `${message}. ${hint}` });

const NO_KEY_LEFT: Fault = {
  code: 'unauthorized',
  message:
    'the service refuses every key (HTTP 401). ' +
    'Set PROMPTMILL_API_KEY to a key of this resource, and check that PROMPTMILL_BASE_URL is its address.',
};

const unreachable = ({ message }: Fault): Fault => ({
  code: 'service_unreachable',
  message: `cannot reach the service: ${message}. Check PROMPTMILL_BASE_URL and the network.`,
});
