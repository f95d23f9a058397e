import type { Logger } from 'pino';
import { steadyNow } from '../clock.js';
import type { Settings } from '../config/settings.js';
import { WorkerHeartbeat } from '../fleet/heartbeat.js';
import type { Halt } from '../halt.js';
import type { Counters, Fault } from '../model.js';
import type { ServiceAccess } from '../service/endpoint.js';
import type { Store } from '../store/store.js';
import { Caller } from './caller.js';
import { serviceWait } from './service-wait.js';
import { ChunkWorker } from './worker.js';

/** The worker of a run that makes its calls itself. */
export interface OwnWorker {
  readonly worker: ChunkWorker;
  readonly heartbeat: WorkerHeartbeat;
}

/**
 * @param calls the run's counters before this process calls anything
 * @param wasReached whether the service has answered this run before
 * @param onStop told why no call can pass
 */
export function startOwnWorker(
  {
    settings,
    world,
    store,
  }: {
    settings: Settings;
    world: ServiceAccess & { readonly log: Logger; readonly halt: Halt };
    store: Store;
  },
  { run, queue, calls }: { readonly run: string; readonly queue: string; readonly calls: Counters },
  wasReached: boolean,
  onStop: (fault: Fault) => void,
): OwnWorker {
  const { concurrency, chunkSize, promptsPerRequest } = settings.limits;
  const { deployment } = settings.service;
  const heartbeat = new WorkerHeartbeat({
    keyValue: store.keyValue,
    log: world.log,
    run,
    concurrency,
    view: () => ({
      queues: [
        {
          queue,
          deployment,
          concurrency: worker.concurrency,
          in_flight: worker.inFlight,
          waiting: serviceWait(worker, steadyNow()),
        },
      ],
      draining: world.halt.reason !== null,
      rows: worker.rows,
    }),
  });
  const caller = new Caller(
    world,
    concurrency,
    wasReached,
    () => world.log.warn('the service refused the first key; going on with the second'),
    (status) => heartbeat.called(status),
  );
  const worker = new ChunkWorker({
    store,
    queue,
    deployment,
    concurrency,
    chunkSize,
    promptsPerRequest,
    pace: {
      requestsPerMinute: settings.limits.requestsPerMinute,
      tokensPerMinute: settings.limits.tokensPerMinute,
    },
    tokenBasis: settings.limits.tokenEstimate,
    caller,
    begun: { run, calls },
    onStop,
    log: world.log,
  });
  heartbeat.begin();
  return { worker, heartbeat };
}
