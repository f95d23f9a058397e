import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, describe, expect, it } from 'vitest';
import { addEmulatorOptions, emulateCommand, emulatorOptions } from '../../src/commands/emulate.js';
import { readEnvironment } from '../../src/config/environment.js';
import { readJobFile } from '../../src/config/job-file.js';
import { settle } from '../../src/config/settings.js';
import { BATCH_FAULTS } from '../../src/emulator/batches/settings.js';
import { FAULT_NAMES } from '../../src/emulator/disturbance.js';
import { TEST_KEYS } from '../../src/emulator/options.js';
import { service } from '../../src/library/service.js';
import { Workplace } from '../support/promptmill.js';
import { call, SENTIMENT } from './call.js';

const work = new Workplace();
afterAll(() => work.remove());

const FAST = ['emulate', '--port', '0', '--latency', '0', '--latency-per-token', '0'];

const MANUAL = readFileSync(join(import.meta.dirname, '../../docs/emulator.md'), 'utf8');

describe('the emulate command', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    'answers until %s, and says everything on standard error',
    async (signal) => {
      const { process: child, ended } = work.start(FAST, { PROMPTMILL_API_KEY: '' });
      const url = await new Promise<string>((resolve) => {
        let said = '';
        child.stderr?.on('data', (text: string) => {
          said += text;
          const found = /PROMPTMILL_BASE_URL=(\S+)\n/.exec(said)?.[1];
          if (found) resolve(found);
        });
        void ended.then(() => resolve('ended early'));
      });
      const key = 'emulator-test-key-1';
      const emulator = { url, keys: [key, key] } as const;
      expect((await call(emulator, { prompt: SENTIMENT })).body.choices[0].text).toBe(' positive');
      child.kill(signal);
      expect(await ended).toMatchObject({ code: 0, stdout: '' });
    },
  );

  it('exits with 2 before it starts when an option is bad', async () => {
    const { code, stderr } = await work.call(['emulate', '--port', '65536']);
    expect(code).toBe(2);
    expect(stderr).toContain('--port "65536" is not a whole number from 0 to 65535');
  });

  it.each([
    [['--port', '1.5'], '--port "1.5" is not a whole number'],
    [['--latency', '-1'], '--latency "-1" is not a number from 0'],
    [['--latency-per-token', 'soon'], '--latency-per-token "soon" is not a number'],
    [['--seed', ''], '--seed "" is not a whole number'],
    [['--requests-per-minute', '0'], '--requests-per-minute "0" is not a whole number from 1'],
    [['--tokens-per-minute', '1e12'], '--tokens-per-minute "1e12" is not'],
    [['--request-window', '61'], '--request-window "61" is not a whole number from 1 to 60'],
    [['--filter-prompt-rate', '3%'], '--filter-prompt-rate "3%" is not a number from 0 to 1'],
    [['--fail', 'explode:0.1'], '--fail "explode:0.1" is not a fault and its share'],
    [['--fail', '500:2'], '--fail "500:2" is not a fault and its share'],
    [['--fail', '500:0.6', '--fail', 'reset:0.5'], 'all shares together are more than 1'],
    [['--deployment', 'reviews=lm-9'], '--deployment "reviews=lm-9" is not a name, =, and a model'],
    [['--script', 'no-such-file.yaml'], 'cannot read --script no-such-file.yaml'],
    [['--hint', 'soon'], "argument 'soon' is invalid. Allowed choices are seconds, ms, date, words, none"],
    [['--filter-prompts', 'none'], 'Allowed choices are low, medium, high, off'],
    [['--refuse-key', '3'], 'Allowed choices are 1, 2'],
    [['--operation', 'embeddings'], 'Allowed choices are completions, chat, both'],
    [['--flex-capacity', '70'], '--flex-capacity "70" is not a number from 0 to 1'],
    [['--refuse', '-1'], '--refuse "-1" is not a number from 0 to 1'],
    [['--batch-seconds', '-1'], '--batch-seconds "-1" is not a number from 0 to 86400'],
    [['--batch-tokens', '0.5'], '--batch-tokens "0.5" is not a whole number from 1'],
    [['--batch-fail', 'explode:1'], '--batch-fail "explode:1" is not a fault and its share'],
    [['--batch-fail', 'holes:1.1'], 'faults are expire, hang,'],
    [['--reasoning', 'deep'], '--reasoning "deep" is not a whole number from 0'],
  ])('refuses %j', async (args, message) => {
    const command = emulateCommand()
      .exitOverride()
      .configureOutput({ writeErr: () => {} });
    await expect(command.parseAsync(args, { from: 'user' })).rejects.toThrow(message);
  });

  it('explains its options with examples', async () => {
    const { code, stdout } = await work.call(['emulate', '--help']);
    expect(code).toBe(0);
    for (const word of [
      'Quota of each deployment:',
      'Content filter:',
      'Faults:',
      'Examples:',
      'lost-create',
      '/stats',
    ]) {
      expect(stdout).toContain(word);
    }
  });

  it('hands the options of batches to the emulator', () => {
    const command = addEmulatorOptions(new Command());
    const text = '--batch-seconds 60 --batch-tokens 1000 --batch-fail expire:0.4 --batch-fail holes:.1';
    command.parse(text.split(' '), { from: 'user' });
    expect(emulatorOptions(command.opts(), { keys: [], segment: 'openai' }).batches).toEqual({
      seconds: 60,
      enqueuedTokens: 1000,
      faults: { expire: 0.4, holes: 0.1 },
    });
  });

  it('has a manual that names every option and every fault', () => {
    const options = emulateCommand().options.flatMap(({ long }) => long ?? []);
    expect(options.length).toBeGreaterThan(15);
    for (const option of options) expect(MANUAL).toContain(`\`${option}`);
    const faults = [...FAULT_NAMES.split(', ').slice(1), ...Object.keys(BATCH_FAULTS)];
    for (const fault of faults) expect(MANUAL).toContain(`\`${fault}\``);
  });
});

describe('the options of batches of a rehearsal', () => {
  it('are for an emulated run', async () => {
    const job = work.job({ input: { path: work.rows(2) }, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_API_KEY: '' };
    const bad = await work.call(['run', job, '--batch-fail', 'explode:1'], env);
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('faults are expire, hang,')]);
    const { code } = await work.call(['run', job, '--batch-seconds', '1', '--quiet'], env);
    expect(code).toBe(0);
    expect(work.records('out.emulated.csv')).toHaveLength(2);
  });

  it('are those of its emulator', async () => {
    const environment = readEnvironment({}, null);
    const path = work.path(work.job({ input: { path: work.rows(1) } }, 'batches.yaml'));
    const flags = { emulate: true, batchSeconds: 0, batchFail: { unavailable: 1 } };
    const settings = settle(readJobFile(path, environment), environment, flags);
    const { endpoints, close } = await service(settings, environment, () => {});
    const key = TEST_KEYS[0];
    const response = await fetch(`${endpoints[0].address.baseUrl}/v1/batches`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(response.status).toBe(503);
    await close();
  });
});
