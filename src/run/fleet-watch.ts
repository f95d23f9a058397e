import type { Logger } from 'pino';
import { steadyNow } from '../clock.js';
import { readAllWorkers, type SeenWorker, withoutGone } from '../fleet/beats.js';
import { LostWorkers } from '../fleet/lost-workers.js';
import type { KeyValue } from '../store/key-value.js';
import type { Fleet } from './watchdog.js';

/** Time from one look to the next, in milliseconds: as often as workers beat. */
const EVERY_MS = 2_000;

interface SeenFleet extends Fleet {
  /** Calls that they have under way together. */
  readonly inFlight: number;
}

export interface FleetWatch {
  /** What the last look found; null before it, and while the heartbeats cannot be read. */
  readonly seen: SeenFleet | null;
  stop(): void;
}

/**
 * Watches the workers that take rows of a queue. Nobody waits for it.
 * @param takeBack gives others what lost workers hold; told again at the next look when it fails
 */
export function watchFleet(
  keyValue: KeyValue,
  queue: string,
  log: Logger,
  takeBack: (workers: ReadonlySet<string>) => Promise<void>,
): FleetWatch {
  let seen: SeenFleet | null = null;
  let looking = false;
  const lostWorkers = new LostWorkers();
  const notTaken = (error: unknown): void =>
    log.debug({ err: error }, 'what lost workers hold stays with them for now');
  const look = async (): Promise<void> => {
    if (looking) return;
    looking = true;
    try {
      const workers = readAllWorkers(await keyValue.list('worker'));
      seen = fleetOf(queue, withoutGone(workers));
      const lost = lostWorkers.looked(workers, steadyNow());
      if (lost.size > 0) await takeBack(lost).then(() => lostWorkers.takenBack(lost), notTaken);
    } catch (error) {
      seen = null;
      log.debug({ err: error }, 'the heartbeats do not say who works');
    } finally {
      looking = false;
    }
  };
  const timer = setInterval(() => void look(), EVERY_MS);
  timer.unref();
  void look();
  return {
    get seen() {
      return seen;
    },
    stop: () => clearInterval(timer),
  };
}

function fleetOf(queue: string, beats: readonly SeenWorker[]): SeenFleet {
  const places = beats
    .filter(({ beat }) => !beat.draining)
    .flatMap(({ beat }) => beat.queues.filter((place) => place.queue === queue));
  return {
    workers: places.length,
    waiting: places.find(({ waiting }) => waiting !== null)?.waiting ?? null,
    inFlight: places.reduce((sum, place) => sum + place.in_flight, 0),
  };
}
