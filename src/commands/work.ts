import { Command, Option } from 'commander';
import { type Environment, readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import { type Concurrency, callsAtOnce } from '../config/job-schema.js';
import { logLevelOf } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import { Halt } from '../core/halt.js';
import { servedJob, variablesOf } from '../library/service.js';
import { terminalText, wrapped } from '../render/terminal-text.js';
import { deploymentsUrl } from '../service/address.js';
import type { ServiceAccess } from '../service/endpoint.js';
import { KeyRing } from '../service/keys.js';
import { proxyFor } from '../service/proxy.js';
import { withoutPassword } from '../store/address.js';
import { isShared, openStore, SHARED_QUEUE_FORMS, SHARED_QUEUES } from '../store/open.js';
import { type Store, silenceOf } from '../store/store.js';
import { type FleetService, FleetWorker, serviceAt, serviceOf } from '../worker/fleet-worker.js';
import type { UnderWay } from './exit-message.js';
import { CONCURRENCY } from './job.js';
import { createLog } from './log.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

interface Options {
  readonly queue?: string;
  readonly concurrency: Concurrency;
  readonly deployment?: readonly string[];
  readonly job?: readonly string[];
  readonly logLevel?: string;
}

/** Not auto: several workers that search on one server take its slots from each other. */
const DEFAULT_CONCURRENCY = 20;

const EXAMPLES = `
Examples:
  $ promptmill work --queue redis://queue-host:6379
      for every run of this queue
  $ promptmill work --queue rediss://redis.example.com --concurrency 100
  $ promptmill work --deployment lm-35-turbo-instruct
      for runs of this deployment only
  $ promptmill work --job jobs/sentiment.yaml --queue redis://queue-host
      for runs of this job, which has several endpoints
  $ promptmill run jobs/sentiment.yaml --queue redis://queue-host --no-work
      a run that leaves it all to them

Any number of them, on any machine. Each calls the service at
PROMPTMILL_BASE_URL with the keys of its own environment, for runs of that
address only. With --job it calls the endpoints that these job files name, for
runs with the same endpoints: those whose keys its environment has.
--concurrency counts the calls of all deployments together.
Ctrl-C or SIGTERM: it takes no more rows, finishes the calls in flight, and
hands the rest back. Exit codes: 0 asked to end, and done; 2 did not start; 3
the service refuses its calls, or the queue cannot be used; 130, 143 ended by a
second signal, or while the queue was away.
`;

export function workCommand(exit: Exit, underWay: UnderWay): Command {
  return new Command('work')
    .description('make calls for the runs of a queue; any number, on any machine')
    .option('--queue <url>', SHARED_QUEUE_FORMS)
    .option(...CONCURRENCY, DEFAULT_CONCURRENCY)
    .option('--deployment <name...>', 'only rows of these deployments (default: all)')
    .addOption(
      new Option('--job <file...>', 'only runs with the endpoints of these job files').conflicts(
        'deployment',
      ),
    )
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (options: Options) => {
      exit(await work(options, exit, underWay));
    });
}

async function work(options: Options, exit: Exit, underWay: UnderWay): Promise<number> {
  const environment = readEnvironment(process.env);
  const { most, untilAnswered } = callsAtOnce(options.concurrency);
  const log = createLog(logLevelOf(options.logLevel ?? environment.logLevel));
  const say = (line: string): void => {
    process.stderr.write(`${wrapped(terminalText(line), process.stderr)}\n`);
  };
  const { service, whose, notes } =
    options.job === undefined
      ? servedAt(serviceAccess(environment), options.deployment)
      : servedOf(options.job, environment);
  const store = await sharedStore(options.queue ?? environment.queue, environment, say);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    say(`working for ${whose}, up to ${most} at a time; queue in ${store.describe()}`);
    for (const note of notes) say(note);
    const worker = new FleetWorker({
      store,
      service,
      ...{ concurrency: most, untilAnswered },
      log,
      say,
      onStop: (problem) => halt.request({ kind: 'stop', problem }),
    });
    store.health.onProblem((problem) => halt.request({ kind: 'stop', problem }));
    underWay.begin('Start it again: its rows go back to the queue by themselves.');
    worker.begin();
    const reason = await halt.requested;
    if (reason.kind === 'signal')
      say(`${reason.signal}: finishing ${counted(worker.inFlight, 'call')} in flight`);
    const over = new AbortController();
    const away = silenceOf(store, over.signal).then(() => true);
    const alone = await Promise.race([worker.close().then(() => false), away]);
    over.abort();
    if (alone)
      say(
        `the queue did not answer: ${counted(worker.inFlight, 'call')} in flight given up, to be made again`,
      );
    if (reason.kind === 'stop') say(`promptmill: ${reason.problem.code}: ${reason.problem.message}`);
    if (reason.kind !== 'signal') return 3;
    return alone ? EXIT_OF_SIGNAL[reason.signal] : 0;
  } finally {
    release();
    await store.close();
  }
}

interface Serving {
  readonly service: FleetService;
  /** Completes "working for". */
  readonly whose: string;
  readonly notes: readonly string[];
}

function servedAt(access: ServiceAccess, named: readonly string[] | undefined): Serving {
  const service = serviceAt(access, named && new Set(named));
  const whose = `${named?.join(', ') ?? 'all deployments'} at ${access.address.baseUrl}`;
  return { service, whose, notes: proxiesOf([access]) };
}

/** @throws UsageError for a file that is no job, and for a job without any of its keys */
function servedOf(files: readonly string[], environment: Environment): Serving {
  const jobs = files.map((file) => servedJob(readJobFile(file, environment), environment));
  const places = jobs.map(
    ({ file, endpoints }) => `${endpoints.map(({ name }) => name).join(', ')} of ${file}`,
  );
  const missing = jobs.flatMap(({ file, without }) =>
    without.map((each) => `${file}: without ${each.spec.name}, as ${variablesOf([each])[0]} is not set`),
  );
  const notes = [...missing, ...proxiesOf(jobs.flatMap(({ endpoints }) => endpoints))];
  return { service: serviceOf(jobs), whose: places.join('; '), notes };
}

const proxiesOf = (all: readonly ServiceAccess[]): readonly string[] =>
  [...new Set(all.flatMap(({ address }) => address.proxy?.address ?? []))].map(
    (proxy) => `calls go through the proxy ${proxy}`,
  );

/** @throws UsageError when the address, the key or the proxy of the service is missing or invalid */
function serviceAccess({ baseUrl, segment, keys, variable }: Environment): ServiceAccess {
  if (baseUrl === undefined) {
    throw new UsageError(
      'base_url_missing',
      'PROMPTMILL_BASE_URL is not set, and a worker calls the service at that address',
      'Set it to the address of the runs, for example https://example.net; promptmill emulate starts one on this machine.',
    );
  }
  // The same checks as for a run; the deployment comes with the rows.
  const place = { baseUrl, segment };
  const url = deploymentsUrl(place);
  return { address: { ...place, proxy: proxyFor(url, variable) }, keys: new KeyRing(keys) };
}

/** @throws UsageError for the embedded store, which only one process can open */
async function sharedStore(
  queue: string,
  { stateDir }: Environment,
  say: (line: string) => void,
): Promise<Store> {
  if (!isShared(queue)) throw notShared(withoutPassword(queue));
  return openStore(queue, { stateDir, onWarning: (message) => say(`warning: ${message}`) });
}

const notShared = (queue: string): UsageError =>
  new UsageError(
    'queue_not_shared',
    `the queue is ${queue}, which only the process of a run can open`,
    `Name the queue of the runs with --queue ${SHARED_QUEUES}, or in PROMPTMILL_QUEUE.`,
  );
