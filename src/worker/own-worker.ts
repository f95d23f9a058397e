import pLimit from 'p-limit';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';
import { limitsOf, WorkerHeartbeat } from '../fleet/heartbeat.js';
import type { Halt } from '../halt.js';
import type { Fault } from '../model.js';
import { queuesOf } from '../queue/names.js';
import type { ServiceAccess } from '../service/endpoint.js';
import type { Counters } from '../store/counters.js';
import type { Store } from '../store/store.js';
import { Batcher } from './batcher.js';
import type { CallEnded } from './caller.js';
import { ChunkWorker } from './worker.js';

export interface OwnWorker {
  readonly worker: ChunkWorker;
  readonly heartbeat: WorkerHeartbeat;
}

/**
 * @param calls the run's counters before this process makes any call
 * @param wasReached whether the service has answered this run before
 * @param onStop called with the reason when no call can succeed
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
  onCall: (call: CallEnded) => void,
): OwnWorker {
  const { concurrency } = settings.limits;
  const batcher = new Batcher(store.ledger, world.log, concurrency, { run, calls });
  const heartbeat = new WorkerHeartbeat({
    keyValue: store.keyValue,
    log: world.log,
    run,
    concurrency,
    view: () => ({
      queues: [worker.heartbeat],
      draining: world.halt.reason !== null,
      rows: batcher.outcomes,
    }),
  });
  const worker = new ChunkWorker(
    {
      ...{ address: world.address, keys: world.keys, store, concurrency, onStop, log: world.log },
      name: heartbeat.id,
      queueOf: queuesOf(settings.emulated, world.address),
      ...{ batcher, ownRun: run },
      // Each deployment has its own limit; this one spans both.
      ...(settings.onInvalid?.deployment && { slots: pLimit(concurrency) }),
      onCall,
    },
    { queue, deployment: settings.endpoint.deployment, limits: limitsOf(settings), answered: wasReached },
  );
  heartbeat.begin();
  return { worker, heartbeat };
}
