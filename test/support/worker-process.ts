import { built, type Child, startChild } from './children.js';

export interface WorkerProcessOptions {
  /** What `--queue` gets. */
  readonly queue: string;
  /** Address of the service. */
  readonly service: string;
  /** Calls in flight at once. */
  readonly concurrency: number;
  readonly chunkSize: number;
  /** How long an entry stays with a worker that shows no sign of life, in milliseconds. */
  readonly lockMs: number;
}

/**
 * What `promptmill work` does, with shorter locks, in a process of its own. Prints what it says; it leaves at SIGTERM, and
 * the last line is then `left`.
 */
export function startFleetWorkerProcess(options: Omit<WorkerProcessOptions, 'chunkSize'>): Child {
  const module = (name: string): string => JSON.stringify(built(name));
  const { queue, service, concurrency, lockMs } = options;
  return startChild(`
    const { openStore } = await import(${module('store/open.js')});
    const { FleetWorker, serviceAt } = await import(${module('worker/fleet-worker.js')});
    const { KeyRing } = await import(${module('service/keys.js')});
    const { createLog } = await import(${module('commands/log.js')});

    const store = await openStore(${JSON.stringify(queue)}, { stateDir: '/dev/null/never', onWarning: () => {} });
    const worker = new FleetWorker({
      store,
      service: serviceAt({
        address: { baseUrl: ${JSON.stringify(service)}, segment: 'openai' },
        keys: new KeyRing(['a-key-for-tests-only']),
      }),
      concurrency: ${concurrency},
      log: createLog('silent'),
      say: (line) => console.log(line),
      onStop: (problem) => console.log('stopped: ' + problem.message),
      times: { lockMs: ${lockMs}, stalledCheckMs: ${lockMs / 2} },
    });
    process.on('SIGTERM', async () => {
      await worker.close();
      await store.close();
      console.log('left');
    });
    worker.begin();
    console.log('ready');
  `);
}

/** A worker and nothing else, in a process of its own, for the job of a trial. Its first line is `ready`. */
export function startWorkerProcess(options: WorkerProcessOptions): Child {
  const module = (name: string): string => JSON.stringify(built(name));
  const { queue, service, concurrency, chunkSize, lockMs } = options;
  return startChild(`
    const { openStore } = await import(${module('store/open.js')});
    const { ChunkWorker } = await import(${module('worker/worker.js')});
    const { queueName } = await import(${module('queue/names.js')});
    const { KeyRing } = await import(${module('service/keys.js')});
    const { createLog } = await import(${module('commands/log.js')});
    const { Batcher } = await import(${module('worker/batcher.js')});

    const log = createLog('silent');
    const store = await openStore(${JSON.stringify(queue)}, { stateDir: '/dev/null/never', onWarning: () => {} });
    const address = { baseUrl: ${JSON.stringify(service)}, segment: 'openai' };
    const deployment = 'lm-35-turbo-instruct';
    const endpoint = {
      name: deployment,
      deployment,
      address,
      keys: new KeyRing(['a-key-for-tests-only']),
      quota: { requestsPerMinute: null, tokensPerMinute: null },
    };
    const place = {
      store,
      concurrency: ${concurrency},
      batcher: new Batcher(store.ledger, log),
      name: 'without-a-heartbeat',
      queueOf: ({ deployment }) => queueName(deployment, address.baseUrl + '/' + address.segment),
      onCall: () => {},
      onStop: (problem) => console.log('stopped: ' + problem.message),
      log,
      times: { lockMs: ${lockMs}, stalledCheckMs: ${lockMs / 2} },
    };
    new ChunkWorker(place, {
      queue: queueName(deployment, address.baseUrl + '/' + address.segment),
      endpoints: [endpoint],
      limits: { token_estimate: 'full', prompts_per_request: 1, chunk_size: ${chunkSize} },
      answered: true,
    });
    console.log('ready');
  `);
}
