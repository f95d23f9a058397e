import { type Command, Option } from 'commander';
import type { Environment } from '../config/environment.js';
import { disturbanceNamed, FAULT_NAMES } from '../emulator/disturbance.js';
import type { FaultRate } from '../emulator/fault-plan.js';
import { readFaultScript } from '../emulator/fault-plan.js';
import { THRESHOLDS, type Threshold } from '../emulator/filter.js';
import { type EmulatorOptions, TEST_KEYS } from '../emulator/options.js';
import { ESTIMATES, type Estimate } from '../emulator/quota.js';
import { HINTS, type Hint } from '../emulator/refusal.js';
import { UsageError } from '../errors.js';
import { CALLABLE_MODELS, modelOf } from '../service/catalogue.js';

/** What the command line says. */
interface Flags {
  readonly host: string;
  readonly port: number;
  readonly refuseKey?: '1' | '2';
  readonly deployment?: Readonly<Record<string, string>>;
  readonly latency: number;
  readonly latencyPerToken: number;
  readonly seed: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly requestWindow: number;
  readonly estimate: Estimate;
  readonly quotaHeaders: boolean;
  readonly hint: Hint;
  readonly filterPrompts: Threshold;
  readonly filterCompletions: Threshold;
  readonly filterPromptRate: number;
  readonly filterCompletionRate: number;
  readonly fail?: readonly FaultRate[];
  readonly script?: string;
}

/** Declares the options, with their defaults: the pace of the service, and nothing that goes wrong. */
export function addEmulatorOptions(command: Command): Command {
  return command
    .optionsGroup('Where:')
    .option('--port <n>', 'port to listen on; 0 takes a free one', wholeNumber('--port', 0, 65_535), 4010)
    .option(
      '--host <address>',
      'address to listen on; a loopback address is for this machine only',
      '127.0.0.1',
    )
    .option(
      '--deployment <name=model>',
      `a deployment of your own name, in front of ${CALLABLE_MODELS}; may be repeated`,
      deployment,
    )
    .addOption(
      new Option('--refuse-key <n>', 'refuse one of the two keys, as after it was renewed').choices([
        '1',
        '2',
      ]),
    )
    .optionsGroup('Answers:')
    .option('--latency <ms>', 'milliseconds before an answer', number('--latency', 600_000), 120)
    .option(
      '--latency-per-token <ms>',
      'milliseconds for each generated token',
      number('--latency-per-token', 10_000),
      8,
    )
    .option(
      '--seed <n>',
      'changes open answers, jitter, and what chance decides',
      wholeNumber('--seed', 0, 2 ** 31 - 1),
      1,
    )
    .optionsGroup('Quota of each deployment:')
    .option(
      '--requests-per-minute <n>',
      'requests admitted a minute',
      wholeNumber('--requests-per-minute', 1),
    )
    .option(
      '--tokens-per-minute <n>',
      'tokens admitted a minute, by estimate; a larger request is told to wait for a day',
      wholeNumber('--tokens-per-minute', 1),
    )
    .option(
      '--request-window <s>',
      'seconds over which requests are counted: 600 a minute are 10 a second, or 100 in 10',
      wholeNumber('--request-window', 1, 60),
      1,
    )
    .addOption(
      new Option('--estimate <how>', 'full: prompt tokens + max_tokens × best_of; or max_tokens alone')
        .choices(ESTIMATES)
        .default('full'),
    )
    .option('--no-quota-headers', 'say nothing of the quota in the headers of answers')
    .addOption(
      new Option('--hint <how>', 'how a 429 says when to come back').choices(HINTS).default('seconds'),
    )
    .optionsGroup('Content filter:')
    .addOption(threshold('--filter-prompts <severity>', 'lowest severity that blocks a prompt'))
    .addOption(threshold('--filter-completions <severity>', 'lowest severity that cuts a completion'))
    .option(
      '--filter-prompt-rate <share>',
      'block this share of prompts, whatever they say',
      share('--filter-prompt-rate'),
      0,
    )
    .option(
      '--filter-completion-rate <share>',
      'cut this share of completions',
      share('--filter-completion-rate'),
      0,
    )
    .optionsGroup('Faults:')
    .option('--fail <fault:share>', `a fault by chance, may be repeated; ${FAULT_NAMES}`, faultRate)
    .option('--script <file>', 'faults for chosen requests or prompts, as YAML or JSON');
}

/**
 * The settings of an emulator out of the command line and the environment.
 * @throws UsageError when the fault script cannot be read
 */
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
    seed: flags.seed,
    latency: { baseMs: flags.latency, perTokenMs: flags.latencyPerToken },
    quota: {
      requestsPerMinute: flags.requestsPerMinute ?? null,
      tokensPerMinute: flags.tokensPerMinute ?? null,
      requestWindowSeconds: flags.requestWindow,
      estimate: flags.estimate,
    },
    quotaHeaders: flags.quotaHeaders,
    hint: flags.hint,
    filter: {
      prompts: { threshold: flags.filterPrompts, rate: flags.filterPromptRate },
      completions: { threshold: flags.filterCompletions, rate: flags.filterCompletionRate },
    },
    faults: flags.fail ?? [],
    script: flags.script === undefined ? [] : readFaultScript(flags.script),
  };
}

function threshold(option: string, description: string): Option {
  return new Option(option, description).choices(THRESHOLDS).default('medium');
}

function deployment(text: string, others: Readonly<Record<string, string>> = {}) {
  const [name = '', model = ''] = text.split('=', 2);
  if (name !== '' && modelOf(model)) return { ...others, [name]: model };
  throw badOption('--deployment', text, `a name, =, and a model such as ${CALLABLE_MODELS}`);
}

function faultRate(text: string, others: readonly FaultRate[] = []): FaultRate[] {
  const [, name = '', rate = ''] = /^([\w-]+):(\d*\.?\d+)$/.exec(text) ?? [];
  const fault = disturbanceNamed(name);
  if (!fault || Number(rate) > 1) {
    throw badOption('--fail', text, `a fault and its share, such as 500:0.02; faults are ${FAULT_NAMES}`);
  }
  const rates = [...others, { fault, rate: Number(rate) }];
  // A little above 1 is what decimal fractions that add up to 1 may come to.
  if (rates.reduce((sum, { rate }) => sum + rate, 0) > 1 + 1e-9) {
    throw badOption('--fail', text, 'possible: all shares together are more than 1');
  }
  return rates;
}

const share = (option: string) => number(option, 1);

/** Reads a number from 0 to `most`. */
function number(option: string, most: number): (text: string) => number {
  return (text) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value >= 0 && value <= most) return value;
    throw badOption(option, text, `a number from 0 to ${most}`);
  };
}

function wholeNumber(option: string, least: number, most = 1_000_000_000): (text: string) => number {
  return (text) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw badOption(option, text, `a whole number from ${least} to ${most}`);
  };
}

function badOption(option: string, text: string, expected: string): UsageError {
  return new UsageError(
    'bad_option',
    `${option} ${JSON.stringify(text)} is not ${expected}`,
    'promptmill emulate --help explains the options.',
  );
}
