import { setInterval } from 'node:timers';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomFrom } from '../../src/core/random.js';
import { FAULTS, kindsOn } from './faults.js';
import { leftInStore } from './left.js';
import { checked, type Promised } from './promises.js';
import { LATENCY_MS, Stage, type StoreKind } from './stage.js';

/** Seconds after which the store has nothing more of a finished run: a lock of an entry and two checks. */
const SETTLES_S = 150;

export interface SoakOptions {
  readonly rows: number;
  /** After which it is stopped, if it has not finished. */
  readonly minutes: number;
  readonly store: StoreKind;
  /** Seconds from the end of a fault to the next. */
  readonly every: number;
  /** Of the emulator. @default 20 */
  readonly latencyMs?: number;
  /** After so many the run is left alone. @default no end */
  readonly faults?: number;
  /** The same seed chooses the same faults. */
  readonly seed: number;
  /** Whether it is to have nothing more of a run that has finished; then the locks of killed workers are waited for. */
  readonly looksAtStore: boolean;
  readonly say: (line: string) => void;
}

export interface Soaked {
  /** Written. */
  readonly rows: number;
  readonly isFinished: boolean;
  readonly minutes: number;
  /** How often each kind came. */
  readonly faults: Readonly<Record<string, number>>;
  /** Requests that the service saw. */
  readonly calls: number;
  readonly repeated: number;
  readonly promises: readonly Promised[];
}

/** Runs a job with one fault after the other, until it has finished or its time is over, and looks what became of it. */
export async function soak(options: SoakOptions): Promise<Soaked> {
  const { rows, minutes, store, every, seed, looksAtStore, say } = options;
  const { latencyMs = LATENCY_MS, faults: most = Number.POSITIVE_INFINITY } = options;
  const stage = await Stage.set(rows, store, latencyMs);
  const random = randomFrom(seed, 'soak');
  const faults: Record<string, number> = {};
  const watch = setInterval(() => stage.watchMemory(), 500);
  try {
    stage.begin();
    const kinds = kindsOn(stage);
    const isOver = (): boolean =>
      stage.isFinished || stage.oddEnds.length > 0 || stage.seconds() > minutes * 60;
    while (stage.rowsOnDisk() === 0 && !isOver()) await sleep(20);
    for (let turn = 0; ; turn++) {
      const until = turn < most ? performance.now() + every * 1000 : Number.POSITIVE_INFINITY;
      while (performance.now() < until && !isOver()) await sleep(50);
      if (isOver()) break;
      const kind = kinds[turn % kinds.length] ?? '';
      const what = await FAULTS[kind]?.(stage, random, every * 3_000);
      faults[kind] = (faults[kind] ?? 0) + 1;
      say(
        `${clockOf(stage.seconds())}  ${kind.padEnd(8)}  ${String(stage.rowsOnDisk()).padStart(9)} rows  ${what}`,
      );
    }
    const minutesTaken = stage.seconds() / 60;
    if (looksAtStore && stage.isFinished) await settled(stage);
    await stage.end();
    clearInterval(watch);
    const { rows: written, calls, promises } = await checked(stage, looksAtStore);
    return {
      rows: written,
      isFinished: stage.isFinished,
      minutes: minutesTaken,
      faults,
      calls: stage.received?.requests ?? 0,
      repeated: calls.repeated,
      promises,
    };
  } finally {
    clearInterval(watch);
    await stage.remove();
  }
}

/** What a killed worker had goes after its lock, by one that lives. */
async function settled(stage: Stage): Promise<void> {
  for (let looks = 0; looks < SETTLES_S && (await leftInStore(stage)).length > 0; looks++) await sleep(1_000);
}

const clockOf = (seconds: number): string =>
  `${String(Math.floor(seconds / 60)).padStart(2)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
