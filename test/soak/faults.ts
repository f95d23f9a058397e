import { statfsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pick } from '../../src/core/random.js';
import { type Disturbance, disturbanceNamed } from '../../src/emulator/disturbance.js';
import type { SmallDisk } from '../support/small-disk.js';
import { hears, type Part, type Stage } from './stage.js';

/**
 * What is done to a run. The text says what, once it is over.
 * @param most milliseconds that it may last
 */
type Fault = (stage: Stage, random: () => number, most: number) => Promise<string>;

const UNNOTICED = 'full, unnoticed';
const HOUR_MS = 3_600_000;
/** Of SIGUSR2. */
const SET_CLOCK = 12;

const between = (random: () => number, least: number, most: number): number =>
  Math.round(least + random() * (most - least));
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

const REFUSED: Disturbance = {
  kind: 'reply',
  name: '429',
  reply: {
    status: 429,
    headers: { 'retry-after': '1' },
    body: { error: { code: '429', message: 'Please retry after 1 second.' } },
  },
};

/** A fault of the service, by its name, for so many milliseconds or so many calls, whichever is over first. */
async function disturb(
  stage: Stage,
  fault: Disturbance | null,
  ms: number,
  times = Number.POSITIVE_INFINITY,
): Promise<void> {
  if (fault === null) throw new Error('the emulator has no such fault');
  const rule = { fault, times };
  stage.rules.push(rule);
  await sleep(ms);
  stage.rules.splice(stage.rules.indexOf(rule), 1);
}

const service: Fault = async (stage, random) => {
  const name = pick(random, ['503', '500', '429', 'reset', 'truncate', 'hang']);
  if (name === '503' || name === '429') {
    const ms = between(random, 300, name === '503' ? 4_000 : 800);
    await disturb(stage, name === '429' ? REFUSED : disturbanceNamed(name), ms);
    return `${name} for ${seconds(ms)}`;
  }
  // Fewer than ten failures in a row are no outage. A call that hangs takes a slot until it times out.
  const times = between(random, 1, name === 'hang' ? 3 : 8);
  await disturb(stage, disturbanceNamed(name), 1_000, times);
  return `${name} for ${times} calls`;
};

const store: Fault = async (stage, random, most) => {
  stage.isAway = true;
  try {
    return await takeAway(stage, random, most);
  } finally {
    stage.isAway = false;
  }
};

const takeAway: Fault = async ({ server }, random, most) => {
  if (server === null) return 'none';
  if (random() < 0.5) {
    const ms = between(random, 300, Math.min(12_000, most));
    await server.kill('SIGSTOP');
    await sleep(ms);
    await server.kill('SIGCONT');
    return `frozen for ${seconds(ms)}`;
  }
  const ms = between(random, 0, Math.min(4_000, most));
  await server.kill('SIGKILL');
  await sleep(ms);
  await server.restart();
  return `killed, away for ${seconds(ms)}`;
};

const killed =
  (partOf: (stage: Stage, random: () => number) => Part): Fault =>
  async (stage, random) => {
    const ms = between(random, 0, 3_000);
    await stage.kill(partOf(stage, random), sleep(ms));
    return `kill -9, started again after ${seconds(ms)}`;
  };

const oneOf = (parts: readonly Part[], random: () => number): Part => {
  const [first, ...others] = parts;
  if (first === undefined) throw new Error('nobody is there');
  return pick(random, [first, ...others]);
};

const disk: Fault = async (stage, random, most) => {
  const { disk, diskKib, producer } = stage;
  if (disk === null) return 'none';
  let end = (): void => {};
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  if (random() < 0.5) {
    const running = await stage.runningOf(producer);
    if (running === null) return 'none';
    producer.mayEnd = 'without disk';
    producer.pause = over;
    shrink(disk);
    await Promise.race([running.ended, sleep(Math.min(8_000, most))]);
    disk.grow(diskKib);
    end();
    return running.process.exitCode === null ? UNNOTICED : 'full, the run stopped';
  }
  // A disk with a file that is open for writing cannot be made read-only.
  await stage.kill(producer, Promise.resolve());
  disk.setReadOnly(true);
  try {
    const running = await stage.runningOf(producer);
    producer.mayEnd = 'without disk';
    producer.pause = over;
    await running?.ended;
  } finally {
    disk.setReadOnly(false);
    end();
  }
  return 'producer killed, and started on a read-only disk';
};

/** Leaves hardly any room. The run writes at the same time, and a disk cannot be smaller than what is on it. */
function shrink(disk: SmallDisk): void {
  for (let room = 16; ; room *= 2) {
    const { bsize, blocks, bfree } = statfsSync(disk.path);
    try {
      disk.grow(((blocks - bfree) * bsize) / 1024 + room);
      return;
    } catch (error) {
      if (room > 1_024) throw error;
    }
  }
}

const clock: Fault = async (stage, random) => {
  const part = oneOf(stage.parts, random);
  const shift = pick(random, [-HOUR_MS, 24 * HOUR_MS, 0]);
  const pid = (await stage.runningOf(part))?.process.pid;
  if (pid === undefined || !hears(pid, SET_CLOCK))
    return `of a ${part.role} that has just begun: left as it is`;
  stage.work.write('shift', String(shift));
  process.kill(pid, SET_CLOCK);
  const to = shift === 0 ? 'right again' : shift < 0 ? 'an hour back' : 'a day forward';
  return `of a ${part.role}: ${to}`;
};

/** On a busy machine it takes the producer some time to begin; one that was killed before would write no row. */
const atWorkAgain =
  (fault: Fault): Fault =>
  async (stage, random, most) => {
    const begun = stage.begun();
    const what = await fault(stage, random, most);
    if (!what.includes(UNNOTICED)) await begun;
    return what;
  };

/** In turn. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  service,
  store,
  worker: killed((stage, random) => oneOf(stage.callers, random)),
  producer: atWorkAgain(killed(({ producer }) => producer)),
  disk: atWorkAgain(disk),
  clock,
};

/** The kinds that a stage can have. */
export const kindsOn = ({ server, disk, workers }: Stage): string[] =>
  Object.keys(FAULTS).filter(
    (kind) =>
      (kind !== 'store' || server !== null) &&
      (kind !== 'worker' || workers.length > 0) &&
      (kind !== 'disk' || disk !== null),
  );
