import { Command, Option } from 'commander';
import { type Environment, readEnvironment } from '../config/environment.js';
import { errorText, UsageError } from '../core/errors.js';
import { BATCH_FAULTS, type BatchFaults } from '../emulator/batches/settings.js';
import { disturbanceNamed, FAULT_NAMES } from '../emulator/disturbance.js';
import { type FaultRate, readFaultScript } from '../emulator/fault-plan.js';
import { THRESHOLDS, type Threshold } from '../emulator/filter.js';
import {
  type EmulatorOptions,
  SERVED_OPERATIONS,
  type ServedOperation,
  TEST_KEYS,
} from '../emulator/options.js';
import { ESTIMATES, type QuotaEstimate } from '../emulator/quota.js';
import { HINTS, type Hint } from '../emulator/refusal.js';
import { type Emulator, startEmulator } from '../emulator/server.js';
import { CALLABLE_MODELS, modelOf } from '../service/catalogue.js';
import { badOption, batchOptions, nameAndShare, number, whole } from './emulator-options.js';

const EXAMPLES = `
Examples:
  $ promptmill emulate
      with the pace of the service, on port 4010
  $ promptmill emulate --port 0 --latency 0 --latency-per-token 0
      on a free port, as fast as it goes
  $ promptmill emulate --seed 7
      other answers where a prompt leaves them open
  $ promptmill emulate --deployment reviews=lm-35-turbo-instruct
      for a job that names its own deployment

  conversations only, with a model that reasons and refuses at times:
  $ promptmill emulate --operation chat --reasoning 200 --refuse 0.02

  a flex tier without capacity for three of ten calls:
  $ promptmill emulate --flex-capacity 0.7

  a small quota, whose 429s carry a date:
  $ promptmill emulate --requests-per-minute 600 --hint date

  a bad day: errors, resets, answers cut in half, 3 % of the prompts blocked:
  $ promptmill emulate --fail 500:0.02 --fail reset:0.01 \\
      --fail truncate:0.01 --filter-prompt-rate 0.03

  a model that does not keep to the form: half of the answers are none of the
  labels, in a code fence, or in a sentence:
  $ promptmill emulate --fail invalid:0.1 --fail fenced:0.2 --fail chatty:0.2

  an outage from the 100th request to the 200th, out of a file:
  $ echo '[{from: 100, to: 200, fault: 503}]' > outage.yaml &&
      promptmill emulate --script outage.yaml

  hosted batches that take a minute; some lose the answer of their creation,
  some of their requests have no line:
  $ promptmill emulate --batch-seconds 60 --batch-fail lost-create:0.5 \\
      --batch-fail holes:0.01

Faults of --batch-fail, each with its share of:
${Object.entries(BATCH_FAULTS)
  .map(([kind, what]) => `  ${kind.padEnd(15)}${what}`)
  .join('\n')}

GET /stats tells what it received. It also answers as a plain server does: POST
/v1/completions and /v1/chat/completions with a bearer key and the model in the
body. Conversations are answered under any name of a deployment. Its keys are
PROMPTMILL_API_KEY and PROMPTMILL_API_KEY_2 where they are set, otherwise keys
of its own, which it prints. docs/emulator.md says more. For a single
rehearsal, promptmill run JOB --emulate starts an emulator by itself.
`;

export function emulateCommand(): Command {
  const command = new Command('emulate').description(
    'answer as the service does, on this machine and without a bill',
  );
  return addEmulatorOptions(command)
    .addHelpText('after', EXAMPLES)
    .action(async (flags: Parameters<typeof emulatorOptions>[0]) => {
      const environment = readEnvironment(process.env);
      const options = emulatorOptions(flags, environment);
      const stop = new AbortController();
      const end = () => stop.abort();
      process.once('SIGINT', end).once('SIGTERM', end);
      try {
        const ownKeys = environment.keys.length === 0;
        await emulate(options, ownKeys, (line) => process.stderr.write(`${line}\n`), stop.signal);
      } finally {
        process.off('SIGINT', end).off('SIGTERM', end);
      }
    });
}

/**
 * Runs an emulator until `stop` aborts.
 * @param ownKeys whether its keys are the made-up ones, which are not secret
 * @throws UsageError when the address is not available
 */
export async function emulate(
  options: EmulatorOptions,
  ownKeys: boolean,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<void> {
  const emulator = await listening(options);
  say(`The emulator listens on ${emulator.url}; Ctrl-C stops it.`);
  say('In another terminal:');
  say('');
  say(`  export PROMPTMILL_BASE_URL=${emulator.url}`);
  // A key from the environment is never printed (fault 53).
  if (ownKeys) {
    say(`  export PROMPTMILL_API_KEY=${emulator.keys[0]}`);
    say(`  export PROMPTMILL_API_KEY_2=${emulator.keys[1]}`);
  } else {
    say('  # with the PROMPTMILL_API_KEY of this environment');
  }
  say('');
  say(`What it received: ${emulator.url}/stats`);
  await aborted(stop);
  await emulator.close();
}

async function listening(options: EmulatorOptions): Promise<Emulator> {
  try {
    return await startEmulator(options);
  } catch (error) {
    throw new UsageError(
      'emulator_address',
      `cannot listen on --host ${options.host} --port ${options.port}: ${errorText(error)}`,
      'Choose another port, or --port 0 for a free one.',
      { cause: error },
    );
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

interface Flags {
  readonly host: string;
  readonly port: number;
  readonly refuseKey?: '1' | '2';
  readonly deployment?: Readonly<Record<string, string>>;
  readonly operation: ServedOperation;
  readonly latency: number;
  readonly latencyPerToken: number;
  readonly seed: number;
  readonly refuse: number;
  readonly reasoning: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly requestWindow: number;
  readonly estimate: QuotaEstimate;
  readonly quotaHeaders: boolean;
  readonly hint: Hint;
  readonly flexCapacity: number;
  readonly flexRefusal: '429' | '498';
  readonly filterPrompts: Threshold;
  readonly filterCompletions: Threshold;
  readonly filterPromptRate: number;
  readonly filterCompletionRate: number;
  readonly fail?: readonly FaultRate[];
  readonly script?: string;
  readonly batchSeconds: number;
  readonly batchTokens?: number;
  readonly batchFail?: BatchFaults;
}

/** The defaults: the pace of the service, and no faults. */
export function addEmulatorOptions(command: Command): Command {
  const here = 'address to listen on; a loopback address is for this machine only';
  const named = `a deployment of your own name, in front of ${CALLABLE_MODELS}; may be repeated`;
  const tokens = 'tokens admitted a minute, by estimate; a larger request is told to wait for a day';
  const window = 'seconds over which requests are counted: 600 a minute are 10 a second, or 100 in 10';
  const reasoning = 'tokens that each chat answer spends on reasoning; the model refuses max_tokens then';
  const flex =
    'share of the calls with service_tier flex that find capacity; the others are refused at no cost';
  const [seconds, faults] = batchOptions();
  const enqueued = 'prompt tokens of a model in all batches that have not ended; more fail their check';
  const estimate = 'full: prompt tokens + max_tokens × best_of; or max_tokens alone';
  return command
    .optionsGroup('Where:')
    .addOption(whole('--port <n>', 'port to listen on; 0 takes a free one', [0, 65_535], 4010))
    .option('--host <address>', here, '127.0.0.1')
    .option('--deployment <name=model>', named, deployment)
    .addOption(choice('--operation <which>', 'what is served', SERVED_OPERATIONS, 'both'))
    .addOption(choice('--refuse-key <n>', 'refuse one of the two keys, as after it was renewed', ['1', '2']))
    .optionsGroup('Answers:')
    .addOption(number('--latency <ms>', 'milliseconds before an answer', [0, 600_000], 120))
    .addOption(number('--latency-per-token <ms>', 'milliseconds for each generated token', [0, 10_000], 8))
    .addOption(
      whole('--seed <n>', 'changes open answers, jitter, and what chance decides', [0, 2 ** 31 - 1], 1),
    )
    .addOption(number('--refuse <share>', 'share of chat answers that are refusals', [0, 1], 0))
    .addOption(whole('--reasoning <n>', reasoning, [0, 1_000_000], 0))
    .optionsGroup('Quota of each deployment:')
    .addOption(whole('--requests-per-minute <n>', 'requests admitted a minute', [1, MOST]))
    .addOption(whole('--tokens-per-minute <n>', tokens, [1, MOST]))
    .addOption(whole('--request-window <s>', window, [1, 60], 1))
    .addOption(choice('--estimate <how>', estimate, ESTIMATES, 'full'))
    .option('--no-quota-headers', 'say nothing of the quota in the headers of answers')
    .addOption(choice('--hint <how>', 'how a 429 says when to come back', HINTS, 'seconds'))
    .addOption(number('--flex-capacity <share>', flex, [0, 1], 1))
    .addOption(
      new Option('--flex-refusal <status>', 'status of their refusal').choices(['429', '498']).default('429'),
    )
    .optionsGroup('Content filter:')
    .addOption(threshold('--filter-prompts <severity>', 'lowest severity that blocks a prompt'))
    .addOption(threshold('--filter-completions <severity>', 'lowest severity that cuts a completion'))
    .addOption(
      number('--filter-prompt-rate <share>', 'block this share of prompts, whatever they say', [0, 1], 0),
    )
    .addOption(number('--filter-completion-rate <share>', 'cut this share of completions', [0, 1], 0))
    .optionsGroup('Faults:')
    .option('--fail <fault:share>', `a fault by chance, may be repeated; ${FAULT_NAMES}`, faultRate)
    .option('--script <file>', 'faults for chosen requests or prompts, as YAML or JSON')
    .optionsGroup('Hosted batches:')
    .addOption(seconds)
    .addOption(whole('--batch-tokens <n>', enqueued, [1, MOST]))
    .addOption(faults);
}

/** @throws UsageError when the fault script cannot be read */
export function emulatorOptions(
  flags: Flags,
  environment: Pick<Environment, 'keys' | 'segment'>,
): EmulatorOptions {
  const [first, second = first] = environment.keys;
  return {
    host: flags.host,
    port: flags.port,
    segment: environment.segment,
    keys: first === undefined || second === undefined ? TEST_KEYS : [first, second],
    ...(flags.refuseKey === undefined ? {} : { refusedKey: flags.refuseKey === '1' ? 1 : 2 }),
    deployments: flags.deployment ?? {},
    operation: flags.operation,
    seed: flags.seed,
    refusalRate: flags.refuse,
    reasoningTokens: flags.reasoning,
    latency: { baseMs: flags.latency, perTokenMs: flags.latencyPerToken },
    quota: {
      requestsPerMinute: flags.requestsPerMinute ?? null,
      tokensPerMinute: flags.tokensPerMinute ?? null,
      requestWindowSeconds: flags.requestWindow,
      estimate: flags.estimate,
    },
    quotaHeaders: flags.quotaHeaders,
    hint: flags.hint,
    flexCapacity: flags.flexCapacity,
    flexRefusal: flags.flexRefusal === '498' ? 498 : 429,
    filter: {
      prompts: { threshold: flags.filterPrompts, rate: flags.filterPromptRate },
      completions: { threshold: flags.filterCompletions, rate: flags.filterCompletionRate },
    },
    faults: flags.fail ?? [],
    script: flags.script === undefined ? [] : readFaultScript(flags.script),
    batches: {
      seconds: flags.batchSeconds,
      enqueuedTokens: flags.batchTokens ?? null,
      faults: flags.batchFail ?? {},
    },
  };
}

const choice = (flags: string, description: string, values: readonly string[], preset?: string): Option =>
  new Option(flags, description).choices(values).default(preset);

const threshold = (flags: string, description: string): Option =>
  choice(flags, description, THRESHOLDS, 'medium');

/** Most requests or tokens per minute. */
const MOST = 1_000_000_000;

function deployment(text: string, others: Readonly<Record<string, string>> = {}) {
  const [name = '', model = ''] = text.split('=', 2);
  if (name !== '' && modelOf(model)) return { ...others, [name]: model };
  throw badOption('--deployment', text, `a name, =, and a model such as ${CALLABLE_MODELS}`);
}

function faultRate(text: string, others: readonly FaultRate[] = []): FaultRate[] {
  const { name, share: rate } = nameAndShare(text);
  const fault = disturbanceNamed(name);
  if (!fault || rate === null) {
    throw badOption('--fail', text, `a fault and its share, such as 500:0.02; faults are ${FAULT_NAMES}`);
  }
  const rates = [...others, { fault, rate }];
  // Decimal fractions that add up to 1 may come out slightly above it.
  if (rates.reduce((sum, { rate }) => sum + rate, 0) > 1 + 1e-9) {
    throw badOption('--fail', text, 'possible: all shares together are more than 1');
  }
  return rates;
}
