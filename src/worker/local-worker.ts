import pLimit from 'p-limit';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';
import type { Counters } from '../core/counters.js';
import type { Halt } from '../core/halt.js';
import type { Problem } from '../core/model.js';
import { limitsOf, WorkerHeartbeatSender } from '../ops/heartbeat-sender.js';
import { queuesOf } from '../queue/names.js';
import type { ServedEndpoint } from '../service/endpoint.js';
import type { Several } from '../service/endpoint-spec.js';
import type { Store } from '../store/store.js';
import { Batcher } from './batcher.js';
import type { CallEnded } from './caller.js';
import { ChunkWorker } from './worker.js';

export interface LocalWorker {
  readonly worker: ChunkWorker;
  readonly sender: WorkerHeartbeatSender;
}

/**
 * @param calls the run's counters before this process makes any call
 * @param wasReached whether the service has answered this run before
 * @param onStop called with the reason when no call can succeed
 */
export function startLocalWorker(
  {
    settings,
    context,
    store,
  }: {
    settings: Settings;
    context: { readonly endpoints: Several<ServedEndpoint>; readonly log: Logger; readonly halt: Halt };
    store: Store;
  },
  { run, queue, calls }: { readonly run: string; readonly queue: string; readonly calls: Counters },
  wasReached: boolean,
  onStop: (problem: Problem) => void,
  onCall: (call: CallEnded) => void,
): LocalWorker {
  const { concurrency, untilAnswered } = settings.limits;
  const batcher = new Batcher(store.ledger, context.log, { run, calls });
  const sender = new WorkerHeartbeatSender({
    keyValue: store.keyValue,
    log: context.log,
    run,
    concurrency,
    view: () => ({
      queues: [worker.heartbeat],
      draining: context.halt.reason !== null,
      rows: batcher.outcomes,
    }),
  });
  const worker = new ChunkWorker(
    {
      ...{
        store,
        concurrency,
        untilAnswered,
        onStop,
        log: context.log,
      },
      name: sender.id,
      queueOf: queuesOf(settings.emulated),
      ...{ batcher, ownRun: run },
      // Each endpoint has its own limit; this one spans all.
      ...((settings.onInvalid?.deployment || context.endpoints.length > 1) && { slots: pLimit(concurrency) }),
      onCall,
    },
    {
      queue,
      endpoints: context.endpoints,
      route: settings.route,
      limits: limitsOf(settings),
      answered: wasReached,
    },
  );
  sender.begin();
  return { worker, sender };
}
