import { Command } from 'commander';
import { readEnvironment } from '../config/environment.js';
import type { EmulatorOptions } from '../emulator/options.js';
import { type Emulator, startEmulator } from '../emulator/server.js';
import { errorText, UsageError } from '../errors.js';
import { addEmulatorOptions, emulatorOptions } from './emulate-options.js';

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

GET /stats tells what it received. It also answers as a plain server does: POST
/v1/completions with a bearer key and the model in the body. Its keys are
PROMPTMILL_API_KEY and PROMPTMILL_API_KEY_2 where they are set, otherwise keys
of its own, which it prints. docs/emulator.md says more. For a single
rehearsal, promptmill run JOB --emulate starts an emulator by itself.
`;

export function emulateCommand(): Command {
  const command = new Command('emulate').description(
    'answer as the completions service does, on this machine and without a bill',
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
