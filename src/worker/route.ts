import type { Problem } from '../core/model.js';
import type { PacerParts } from '../pace/pacer.js';
import type { OutageView } from '../pace/pauses.js';
import type { Quota } from '../pace/shared-pace.js';
import type { ServedEndpoint } from '../service/endpoint.js';
import { mapped, type Several } from '../service/endpoint-spec.js';
import { TaskLine } from './fair-limit.js';
import { type CallContext, Lane, type LaneRoute, type Served } from './lane.js';

/** With `in_order`, how long a row waits for an earlier endpoint, in ms. */
const PATIENCE_MS = 1_000;

/** How often lanes look whether they may take a row, in ms: a pause may be over. */
const LOOK_MS = 50;

/**
 * Lanes that take rows from one line: the next row goes to a lane whose own permits have room, so that their
 * quotas add up. One lane alone takes all.
 */
export class Route implements LaneRoute {
  readonly line = new TaskLine<Lane>();
  readonly lanes: Several<Lane>;
  readonly #looking: NodeJS.Timeout | null;

  /**
   * @param onPause told when no lane may call, with the time until one may, in ms
   * @param isPartial whether other workers may call endpoints of the job that this one cannot
   */
  constructor(
    private readonly context: CallContext,
    endpoints: Several<ServedEndpoint>,
    private readonly served: Pick<Served, 'limits' | 'answered' | 'route'>,
    private readonly onPause: PacerParts['onPause'],
    readonly isPartial = false,
  ) {
    // Whatever one of them does with its calls, the others have some left.
    const { length } = endpoints;
    const most = context.concurrency - (length - 1) * Math.floor(context.concurrency / (2 * length));
    const untilAnswered = Math.min(most, context.untilAnswered ?? most);
    const shared = {
      ...context,
      concurrency: most,
      untilAnswered,
      tellsEndpoint: length > 1 || context.tellsEndpoint === true,
    };
    const paused = (): Promise<void> => this.#paused();
    this.lanes = mapped(endpoints, (endpoint) => {
      const log = shared.tellsEndpoint ? context.log.child({ endpoint: endpoint.name }) : context.log;
      return new Lane({ ...shared, log }, endpoint, served, this, paused);
    });
    this.#looking = endpoints.length === 1 ? null : setInterval(() => this.line.offer(), LOOK_MS).unref();
  }

  /** Calls that may be made at once now. */
  get concurrency(): number {
    return Math.min(
      this.context.concurrency,
      this.lanes.reduce((sum, { limit }) => sum + limit.concurrency, 0),
    );
  }

  /** How long no lane may call, in ms; 0 when one may. */
  get waitingMs(): number {
    return this.#going.length === 0 ? 0 : Math.min(...this.#going.map(({ gate }) => gate.waitingMs));
  }

  async #paused(): Promise<void> {
    if (this.waitingMs > 0) await this.onPause(this.waitingMs);
  }

  get #going(): readonly Lane[] {
    return this.lanes.filter(({ stopped }) => stopped === null);
  }

  /** True when a call needs nothing but its turn and a slot. */
  get isOpen(): boolean {
    return this.lanes.some(({ gate }) => gate.isOpen);
  }

  /** What all lanes suffer from; null when one of them does not. */
  get outage(): OutageView | null {
    const views = this.#going.map(({ outage }) => outage.view);
    return views.every((view) => view !== null) ? (views[0] ?? null) : null;
  }

  /** Null while unknown for one of them. */
  get quota(): Quota | null {
    const [first = null, ...others] = this.#going.map(({ pacer }) => pacer.quota);
    return others.reduce(sumOfQuotas, first);
  }

  /** Where no lane may call, the first to ask finds that out, and the rows go back to the queue. */
  mayTake(lane: Lane): boolean {
    if (this.lanes.length === 1 || this.#going.length === 0) return true;
    if (lane.stopped === null && this.waitingMs > 0) return true;
    return lane.hasRoom && (this.served.route === 'balance' || this.#isNext(lane));
  }

  #isNext(lane: Lane): boolean {
    const before = this.lanes.slice(0, this.lanes.indexOf(lane));
    return before.every(({ isAside }) => isAside) || this.line.waitedMs > PATIENCE_MS;
  }

  /** @returns why the run must stop, in all their words, as no other lane is left; null when it goes on */
  stop(lane: Lane, problem: Problem): Problem | null {
    if (this.lanes.length === 1 && !this.isPartial)
      return this.context.tellsEndpoint ? ofEndpoint(problem) : problem;
    lane.stop(ofEndpoint(problem));
    if (this.#going.length > 0) {
      // The others may be in a pause, which was none of the whole queue so far.
      void this.#paused();
      return null;
    }
    const messages = this.lanes.map(({ name, stopped }) => `${name}: ${stopped?.message}`);
    return { ...problem, message: messages.join(' ') };
  }

  hasOther(lane: Lane): boolean {
    return this.lanes.some((other) => other !== lane && !other.isAside);
  }

  /** @param asked most rows in one request, as the job asks */
  packSize(asked: number, attempt: number): number {
    return Math.min(...this.lanes.map((lane) => lane.packSize(asked, attempt)));
  }

  async close(): Promise<void> {
    clearInterval(this.#looking ?? undefined);
    await Promise.all(this.lanes.map(({ caller }) => caller.close()));
  }
}

/** The routes of a worker: to the endpoints of its queue, and to those asked last for rows whose answers did not fit. */
export class Lanes {
  readonly own: Route;
  readonly #context: CallContext;
  readonly #others = new Map<string, Route>();

  /** @param onPause when no endpoint of the queue may be called */
  constructor(
    context: CallContext,
    private readonly served: Served,
    onPause: PacerParts['onPause'],
  ) {
    const { endpoints, set = endpoints } = served;
    this.#context = { ...context, tellsEndpoint: set.length > 1 };
    this.own = new Route(this.#context, endpoints, served, onPause, endpoints.length < set.length);
  }

  get all(): readonly Lane[] {
    return [...this.own.lanes, ...this.others];
  }

  get others(): readonly Lane[] {
    return [...this.#others.values()].flatMap(({ lanes }) => lanes);
  }

  /**
   * To one of the endpoints, or to another deployment at the address of the only one.
   * @returns null for one that this worker has no key for
   */
  to(deployment: string): Route | null {
    const known = this.#others.get(deployment);
    if (known !== undefined) return known;
    const { served } = this;
    const several = this.#context.tellsEndpoint;
    // The quota in the job is that of its own deployment.
    const quota = { requestsPerMinute: null, tokensPerMinute: null };
    const other = { ...served.endpoints[0], name: deployment, deployment, quota };
    const endpoint = several ? served.endpoints.find(({ name }) => name === deployment) : other;
    if (endpoint === undefined) return null;
    // The entries of its rows are delayed one by one.
    const route = new Route(this.#context, [endpoint], { ...served, answered: true }, async () => {});
    this.#others.set(deployment, route);
    return route;
  }

  close(): Promise<unknown> {
    return Promise.all([this.own, ...this.#others.values()].map((route) => route.close()));
  }
}

/** The field and the variables of a single endpoint are not those of one of several. */
const ofEndpoint = ({ message, ...problem }: Problem): Problem => ({
  ...problem,
  message: message
    .replaceAll('service.deployment', 'its deployment in service.endpoints')
    .replaceAll('PROMPTMILL_BASE_URL', 'its base_url')
    .replace(/service\.(operation|style|api_version)/g, 'its $1'),
});

function sumOfQuotas(a: Quota | null, b: Quota | null): Quota | null {
  if (a === null || b === null) return null;
  const sum = (of: number | null, and: number | null): number | null =>
    of === null || and === null ? null : of + and;
  return {
    perMinute: sum(a.perMinute, b.perMinute),
    isFound: a.isFound || b.isFound,
    tokensPerMinute: sum(a.tokensPerMinute, b.tokensPerMinute),
  };
}
