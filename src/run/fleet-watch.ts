import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import { readAllWorkers, type SeenWorker, withoutGone } from '../ops/heartbeat.js';
import { LostWorkers } from '../ops/lost-workers.js';
import type { Quota } from '../pace/shared-pace.js';
import type { KeyValue } from '../store/key-value.js';
import type { Fleet } from './watchdog.js';

/** Milliseconds, the interval of the workers' heartbeats. */
const EVERY_MS = 2_000;

interface SeenFleet extends Fleet {
  readonly quota: Quota | null;
  readonly inFlight: number;
}

export interface FleetWatch {
  /** Null before the first look, and while the heartbeats cannot be read. */
  readonly seen: SeenFleet | null;
  stop(): void;
}

interface FleetWatchParts {
  readonly keyValue: Pick<KeyValue, 'list'>;
  readonly queue: string;
  readonly log: Logger;
  /** Requeues the chunks of lost workers; called again at the next look when it fails. */
  readonly requeueHeldBy: (workers: ReadonlySet<string>) => Promise<void>;
  /** Called for each worker that was killed or cut off, once others have its rows. */
  readonly onLost: (worker: LostWorker) => void;
}

interface LostWorker {
  readonly host: string;
  readonly pid: number;
  readonly silentMs: number;
  readonly inFlight: number;
}

export function watchFleet({ keyValue, queue, log, requeueHeldBy, onLost }: FleetWatchParts): FleetWatch {
  let seen: SeenFleet | null = null;
  let looking = false;
  const lostWorkers = new LostWorkers();
  const notRequeued = (error: unknown): void =>
    log.debug({ err: error }, 'could not requeue the chunks of lost workers; trying again later');
  const look = async (): Promise<void> => {
    if (looking) return;
    looking = true;
    try {
      const workers = readAllWorkers(await keyValue.list('worker'));
      seen = fleetOf(queue, withoutGone(workers));
      const lost = lostWorkers.looked(workers, steadyNow());
      if (lost.size > 0) {
        const requeued = (): void => {
          lostWorkers.requeued(lost);
          for (const worker of lostOf(queue, workers, lost)) onLost(worker);
        };
        await requeueHeldBy(lost).then(requeued, notRequeued);
      }
    } catch (error) {
      seen = null;
      log.debug({ err: error }, 'cannot read the heartbeats of workers');
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

/** A worker that ended in order has removed its heartbeat; only its own run misses the worker of a run. */
const lostOf = (queue: string, beats: readonly SeenWorker[], lost: ReadonlySet<string>): LostWorker[] =>
  beats.flatMap(({ beat, ageMs }) => {
    const place = beat.queues.find((each) => each.queue === queue);
    if (!lost.has(beat.id) || beat.run !== null || place === undefined) return [];
    return [{ host: beat.host, pid: beat.pid, silentMs: ageMs, inFlight: place.in_flight }];
  });
