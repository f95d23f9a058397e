import type { Logger } from 'pino';
import { steadyNow } from '../clock.js';
import { readAllWorkers, type SeenWorker, withoutGone } from '../fleet/beats.js';
import { LostWorkers } from '../fleet/lost-workers.js';
import type { Quota } from '../pace/shared-pace.js';
import type { KeyValue } from '../store/key-value.js';
import type { Fleet } from './watchdog.js';

/** Time from one look to the next, in milliseconds: as often as workers beat. */
const EVERY_MS = 2_000;

interface SeenFleet extends Fleet {
  /** What one of them knows of the quota; null where none does. */
  readonly quota: Quota | null;
  /** Calls that they have under way together. */
  readonly inFlight: number;
}

export interface FleetWatch {
  /** What the last look found; null before it, and while the heartbeats cannot be read. */
  readonly seen: SeenFleet | null;
  stop(): void;
}

interface FleetWatchParts {
  readonly keyValue: Pick<KeyValue, 'list'>;
  readonly queue: string;
  readonly log: Logger;
  /** Gives others what lost workers hold; told again at the next look when it fails. */
  readonly takeBack: (workers: ReadonlySet<string>) => Promise<void>;
  /** Told of each worker of the queue whose process was killed or is cut off, once others have its rows. */
  readonly onLost: (worker: LostWorker) => void;
}

interface LostWorker {
  readonly host: string;
  readonly pid: number;
  readonly silentMs: number;
  /** Calls that it had under way. */
  readonly inFlight: number;
}

/** Watches the workers that take rows of a queue. Nobody waits for it. */
export function watchFleet({ keyValue, queue, log, takeBack, onLost }: FleetWatchParts): FleetWatch {
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
      if (lost.size > 0) {
        const taken = (): void => {
          lostWorkers.takenBack(lost);
          for (const worker of lostOf(queue, workers, lost)) onLost(worker);
        };
        await takeBack(lost).then(taken, notTaken);
      }
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
  const quota = places.find((place) => place.quota !== null)?.quota ?? null;
  return {
    workers: places.length,
    waiting: places.find(({ waiting }) => waiting !== null)?.waiting ?? null,
    inFlight: places.reduce((sum, place) => sum + place.in_flight, 0),
    quota: quota && {
      perMinute: quota.requests_per_minute,
      isFound: quota.is_found,
      tokensPerMinute: quota.tokens_per_minute,
    },
  };
}

/** Those that others miss: one that ended in order has taken its beat away, and that of a run is missed by its run alone. */
const lostOf = (queue: string, beats: readonly SeenWorker[], lost: ReadonlySet<string>): LostWorker[] =>
  beats.flatMap(({ beat, ageMs }) => {
    const place = beat.queues.find((each) => each.queue === queue);
    if (!lost.has(beat.id) || beat.run !== null || place === undefined) return [];
    return [{ host: beat.host, pid: beat.pid, silentMs: ageMs, inFlight: place.in_flight }];
  });
