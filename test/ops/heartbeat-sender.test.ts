import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { CallCounts } from '../../src/core/counters.js';
import {
  type HeartbeatOptions,
  HeartbeatSender,
  RunHeartbeatSender,
} from '../../src/ops/heartbeat-sender.js';
import { settingsFor } from '../resume/run-files.js';
import { runBeat } from './samples.js';

/** A store whose writes end when the test says so. */
function slowStore() {
  const written: string[] = [];
  const waiting: (() => void)[] = [];
  const later = async (what: string): Promise<void> => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    written.push(what);
  };
  const keyValue = {
    put: (_folder: string, name: string, text: string) => later(`${name}: ${JSON.parse(text).known}`),
    remove: (_folder: string, name: string) => later(`${name} removed`),
  };
  return { keyValue, written, waiting };
}

function begin(keyValue: HeartbeatOptions['keyValue']) {
  let n = 0;
  const errors: unknown[] = [];
  const heartbeat = new HeartbeatSender({
    keyValue,
    folder: 'run',
    name: 'a',
    beat: () => runBeat({ known: ++n }),
    everyMs: 1,
    ttlMs: 1_000,
    onError: (error) => errors.push(error),
  });
  return { heartbeat, errors, beats: () => n };
}

it('writes one beat at a time, and the last one after all others', async () => {
  const { keyValue, written, waiting } = slowStore();
  const { heartbeat, beats } = begin(keyValue);
  let ticks = 0;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (++ticks < 5) return;
      clearInterval(timer);
      resolve();
    }, 1);
  });
  expect(beats(), 'the store has not answered the first').toBe(1);
  const ended = heartbeat.endWithBeat();
  expect(beats()).toBe(1);
  waiting.shift()?.();
  await expect.poll(() => waiting.length).toBe(1);
  waiting.shift()?.();
  await ended;
  expect(written).toEqual(['a: 1', 'a: 2']);
  await heartbeat.endWithout();
  expect(written, 'it has ended').toHaveLength(2);
});

it('removes what was said at the end, after the beat under way', async () => {
  const { keyValue, written, waiting } = slowStore();
  const { heartbeat } = begin(keyValue);
  const ended = heartbeat.endWithout();
  waiting.shift()?.();
  await expect.poll(() => waiting.length).toBe(1);
  waiting.shift()?.();
  await ended;
  expect(written).toEqual(['a: 1', 'a removed']);
});

it('goes on after a refusal, and tells it', async () => {
  let refusals = 0;
  const { heartbeat, errors } = begin({
    put: async () => {
      if (++refusals < 3) throw new Error('refused');
    },
    remove: async () => {
      throw new Error('refused too');
    },
  });
  await expect.poll(() => refusals).toBeGreaterThan(3);
  await heartbeat.endWithout();
  expect(errors.map(String)).toEqual(['Error: refused', 'Error: refused', 'Error: refused too']);
});

it('what a run says of its calls never falls, over a kill and a resume either', async () => {
  const run = '20261121-020000-4f9c1a';
  const said: CallCounts[] = [];
  const asked: string[] = [];
  let last = '';
  const keyValue = {
    put: async (_folder: string, _name: string, text: string) => {
      last = text;
      const { calls, endpoints } = JSON.parse(text).summary;
      expect(endpoints.west.calls).toBe(calls.sent);
      said.push(calls);
    },
    get: async (_folder: string, name: string) => {
      asked.push(name);
      return { text: last || null, written: false, now: 0 };
    },
    // Only at the end, to drop the oldest: there may be hundreds.
    list: async () => {
      asked.push('all');
      return [];
    },
    remove: async () => {},
  };
  /** One process of the run, which counts so many calls sent at its beginning and at its end. */
  async function live(first: number, final: number): Promise<void> {
    let sent = first;
    const heartbeat = new RunHeartbeatSender(
      {
        keyValue,
        log: pino({ level: 'silent' }),
        settings: settingsFor('out.csv'),
        run,
        queue: 'q',
        beyond: 0,
        summary: () => {
          const { summary } = runBeat({ run });
          const { usage } = summary;
          const endpoints = { west: { calls: sent, rows: 0, usage, cost: null, rate_limited: 0 } };
          return { ...summary, calls: { ...summary.calls, sent, repeated: 0 }, endpoints };
        },
        latency: () => null,
      },
      0,
    );
    await heartbeat.begin();
    sent = final;
    await heartbeat.end('interrupted');
  }

  await live(10, 9);
  await live(7, 30);
  expect(said.map(({ sent }) => sent)).toEqual([10, 10, 10, 30]);
  expect(asked).toEqual([run, 'all', run, 'all']);
});
