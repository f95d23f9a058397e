import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { emulate } from '../../src/commands/emulate.js';
import { UsageError } from '../../src/core/errors.js';
import { randomFrom } from '../../src/core/random.js';
import { latencyOf } from '../../src/emulator/delivery.js';
import { type EmulatorOptions, TEST_KEYS } from '../../src/emulator/options.js';
import { startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

const OPEN = { prompt: 'Tell me about bridges.', max_tokens: 60 };

async function textsOf(options: EmulatorOptions, body: object): Promise<string[]> {
  const emulator = await startEmulator(options);
  try {
    const response = await call(emulator, body);
    return response.body.choices.map((choice: { text: string }) => choice.text);
  } finally {
    await emulator.close();
  }
}

describe('answers', () => {
  it('are the same from every emulator with the same seed', async () => {
    const body = { ...OPEN, temperature: 1.5, n: 3 };
    expect(await textsOf({ seed: 5 }, body)).toEqual(await textsOf({ seed: 5 }, body));
  });

  it('differ by seed and by choice above temperature 0', async () => {
    const body = { ...OPEN, temperature: 1, n: 8 };
    const [first, second] = [await textsOf({ seed: 1 }, body), await textsOf({ seed: 2 }, body)];
    expect(first).not.toEqual(second);
    expect(new Set(first).size).toBeGreaterThan(1);
  });

  it('are one and the same at temperature 0, whatever else is asked', async () => {
    const plain = await textsOf({}, { ...OPEN, temperature: 0 });
    const varied = await textsOf({}, { ...OPEN, temperature: 0, n: 4, top_p: 0.5, presence_penalty: 1 });
    expect(new Set([...plain, ...varied]).size).toBe(1);
  });
});

describe('latency', () => {
  it('grows with the tokens, within a fifth, and is the same for the same random stream', () => {
    const latency = { baseMs: 100, perTokenMs: 10 };
    const times = [1, 2, 3, 4, 5].map((seed) => latencyOf(latency, 10, randomFrom(seed, '')));
    for (const time of times) {
      expect(time).toBeGreaterThanOrEqual(160);
      expect(time).toBeLessThanOrEqual(240);
    }
    expect(new Set(times).size).toBe(5);
    expect(latencyOf(latency, 10, randomFrom(1, ''))).toBe(times[0]);
    expect(latencyOf({ baseMs: 0, perTokenMs: 0 }, 1000, randomFrom(1, ''))).toBe(0);
  });
});

describe('an emulator', () => {
  it('closes connections that are idle, and those that wait for an answer', async () => {
    const emulator = await startEmulator({ latency: { baseMs: 3_600_000, perTokenMs: 0 } });
    const { hostname, port } = new URL(emulator.url);
    const idle = connect(Number(port), hostname);
    await once(idle, 'connect');
    const waiting = call(emulator, { prompt: SENTIMENT }).then(
      () => 'answered',
      () => 'cut',
    );
    // Answered at once, on a third connection: by then the emulator has taken the other two.
    expect((await call(emulator, { prompt: SENTIMENT }, { deployment: 'no-such' })).status).toBe(404);

    const ended = once(idle, 'close');
    await emulator.close();
    await ended;
    expect(await waiting).toBe('cut');
    await expect(call(emulator, { prompt: SENTIMENT })).rejects.toThrow();
  });

  it('takes other keys and another segment', async () => {
    const emulator = await startEmulator({ segment: 'texts', keys: ['one', 'two'] });
    const target = '/texts/deployments/text-davinci-003/completions?api-version=2022-12-01';
    expect((await call(emulator, { prompt: SENTIMENT }, { target })).status).toBe(200);
    expect(
      (await call(emulator, { prompt: SENTIMENT }, { target, headers: { 'api-key': 'two' } })).status,
    ).toBe(200);
    expect((await call(emulator, { prompt: SENTIMENT })).status).toBe(404);
    await emulator.close();
  });

  it('refuses one of its keys, as after it was renewed', async () => {
    const emulator = await startEmulator({ refusedKey: 1 });
    const [first, second] = emulator.keys;
    const status = async (key: string) =>
      (await call(emulator, { prompt: SENTIMENT }, { headers: { 'api-key': key } })).status;
    expect([await status(first), await status(second)]).toEqual([401, 200]);
    await emulator.close();
  });

  it('has deployments of other names', async () => {
    const emulator = await startEmulator({ deployments: { reviews: 'text-davinci-003' } });
    const { status, body } = await call(emulator, { prompt: SENTIMENT }, { deployment: 'reviews' });
    expect([status, body.model]).toEqual([200, 'text-davinci-003']);
    await emulator.close();
  });
});

describe('promptmill emulate', () => {
  /** Runs the command until it has said where it listens, calls it with a key, and stops it. */
  async function session(keys: readonly [string, string] | null): Promise<{ said: string; status: number }> {
    const stop = new AbortController();
    const lines: string[] = [];
    let listens = (_url: string) => {};
    const listening = new Promise<string>((resolve) => {
      listens = resolve;
    });
    const ended = emulate(
      { keys: keys ?? TEST_KEYS },
      keys === null,
      (line) => {
        lines.push(line);
        const url = /PROMPTMILL_BASE_URL=(\S+)/.exec(line)?.[1];
        if (url) listens(url);
      },
      stop.signal,
    );
    const url = await listening;
    const key = keys?.[0] ?? /PROMPTMILL_API_KEY=(\S+)/.exec(lines.join('\n'))?.[1] ?? '';
    const { status } = await call({ url, keys: [key, key] }, { prompt: SENTIMENT });
    stop.abort();
    await ended;
    return { said: lines.join('\n'), status };
  }

  it('prints what to export, with keys of its own', async () => {
    const { said, status } = await session(null);
    expect(said).toMatch(/export PROMPTMILL_BASE_URL=http:\/\/127\.0\.0\.1:\d+/);
    expect(said).toMatch(/export PROMPTMILL_API_KEY=emulator-test-key-1/);
    expect(status).toBe(200);
  });

  it('fault 53: accepts a key of the environment and never prints it', async () => {
    const { said, status } = await session(['canary-7f3a', 'canary-7f3a']);
    expect(said).not.toContain('canary-7f3a');
    expect(said).not.toContain('emulator-test-key');
    expect(status).toBe(200);
  });

  it('refuses an address that is taken', async () => {
    const other = await startEmulator();
    const port = Number(new URL(other.url).port);
    const running = emulate({ port }, true, () => {}, new AbortController().signal);
    await expect(running).rejects.toThrow(UsageError);
    await expect(running).rejects.toThrow(`--port ${port}`);
    await other.close();
  });
});
