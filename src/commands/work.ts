import { Command } from 'commander';
import { type Environment, readEnvironment } from '../config/environment.js';
import { DEFAULT_CONCURRENCY } from '../config/job-schema.js';
import { logLevelOf } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { openStore } from '../queue/open-store.js';
import type { Store } from '../queue/store.js';
import { parseStoreAddress, withoutPassword } from '../queue/store-address.js';
import { FleetWorker } from '../run/fleet-worker.js';
import { Halt, type HaltReason } from '../run/halt.js';
import { KeyRing } from '../service/keys.js';
import { completionsUrl } from '../service/request.js';
import { wholeNumber } from './job.js';
import { createLog } from './log.js';
import { type Exit, haltOnSignals } from './signals.js';

interface Options {
  readonly queue?: string;
  readonly concurrency?: number;
  readonly deployment?: readonly string[];
  readonly logLevel?: string;
}

const EXAMPLES = `
Examples:
  $ promptmill work --queue redis://queue-host:6379                     for every run of this queue
  $ promptmill work --queue postgres://mill@db/mill --concurrency 100
  $ promptmill work --deployment lm-35-turbo-instruct                   for runs of this deployment only
  $ promptmill run jobs/sentiment.yaml --queue redis://queue-host:6379 --no-work    a run that leaves it all to them

Any number of them, on any machine. Each calls the service at PROMPTMILL_BASE_URL with the keys of its own environment, for
runs of that address and no other. --concurrency counts the calls of all deployments together. Ctrl-C or SIGTERM: it takes no
more rows, finishes the calls in flight, and hands the rest back. Exit codes: 0 asked to end, and done; 2 did not start;
3 the service refuses its calls; 130, 143 ended by a second signal.
`;

/** `promptmill work`: makes the calls of runs that other processes began. */
export function workCommand(exit: Exit): Command {
  return new Command('work')
    .description('make calls for the runs of a queue; any number, on any machine')
    .option('--queue <url>', 'redis://…, rediss://… or postgres://…')
    .option('--concurrency <n>', `calls in flight at once (default: ${DEFAULT_CONCURRENCY})`, wholeNumber)
    .option('--deployment <name...>', 'only rows of these deployments (default: all)')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (options: Options) => {
      exit(await work(options, exit));
    });
}

async function work(options: Options, exit: Exit): Promise<number> {
  const environment = readEnvironment(process.env);
  const concurrency = options.concurrency ?? DEFAULT_CONCURRENCY;
  const deployments = options.deployment === undefined ? null : new Set(options.deployment);
  const log = createLog(logLevelOf(options.logLevel ?? environment.logLevel));
  const say = (line: string): void => {
    process.stderr.write(`${line}\n`);
  };
  const keys = serviceKeys(environment);
  const store = await sharedStore(options.queue ?? environment.queue, environment, say);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    const { baseUrl, segment } = environment;
    const whose = deployments === null ? 'all deployments' : [...deployments].join(', ');
    say(`working for ${whose} at ${baseUrl}, ${concurrency} at a time; queue in ${store.describe()}`);
    const worker = new FleetWorker({
      store,
      address: { baseUrl, segment },
      keys,
      concurrency,
      deployments,
      log,
      say,
      onStop: (fault) => halt.pull({ kind: 'stop', fault }),
    });
    worker.begin();
    const reason = await pulled(halt);
    if (reason.kind === 'signal') say(`${reason.signal}: finishing ${calls(worker.inFlight)}`);
    await worker.close();
    if (reason.kind !== 'stop') return 0;
    say(`promptmill: ${reason.fault.code}: ${reason.fault.message}`);
    return 3;
  } finally {
    release();
    await store.close();
  }
}

/** @throws UsageError when the address or the key of the service is missing or cannot be used */
function serviceKeys({ baseUrl, segment, keys }: Environment): KeyRing {
  // The same checks as for a run; the deployment comes with the rows.
  completionsUrl({ baseUrl, segment, deployment: 'any', apiVersion: 'any', style: 'deployments' });
  return new KeyRing(keys);
}

/** @throws UsageError for the embedded store, which is open to one process only */
async function sharedStore(
  queue: string,
  { stateDir }: Environment,
  say: (line: string) => void,
): Promise<Store> {
  if (parseStoreAddress(queue).kind === 'embedded') throw notShared(withoutPassword(queue));
  return openStore(queue, { stateDir, onWarning: (message) => say(`warning: ${message}`) });
}

const notShared = (queue: string): UsageError =>
  new UsageError(
    'queue_not_shared',
    `the queue is ${queue}, which only the process of a run can open`,
    'Name the queue of the runs with --queue redis://HOST:PORT or postgres://USER@HOST/DATABASE, or in PROMPTMILL_QUEUE.',
  );

const calls = (n: number): string => `${n} call${n === 1 ? '' : 's'} in flight`;

function pulled(halt: Halt): Promise<HaltReason> {
  return new Promise((resolve) => {
    halt.onPull(() => {
      if (halt.reason !== null) resolve(halt.reason);
    });
  });
}
