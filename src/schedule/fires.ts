import { type Job, WaitingError, Worker } from 'bullmq';
import type { Store } from '../store/store.js';
import { type FireData, fireData, scheduleQueue } from './schedule.js';

/** A moment at which a job is to run. */
export interface Fire {
  /** Tells this fire from all others, also when it is handed out twice. */
  readonly entry: string;
  readonly job: string;
  /** Absolute path of the job file. */
  readonly path: string;
  /** When it was to be. */
  readonly due: Date;
}

/** `taken`: its run is safely begun, or it is not wanted. `left`: it goes back for the next `serve`. */
export type FireEnd = 'taken' | 'left';

export interface FireOptions {
  readonly store: Store;
  readonly emulated: boolean;
  /** Resolves when the fire is taken or left; until then it stays with this process. */
  readonly onFire: (fire: Fire) => Promise<FireEnd>;
  readonly onError: (error: Error) => void;
}

/** Fires that are looked at together: those that wait for their turn must not hold back others. */
const AT_ONCE = 1_000;
/** Times that a fire may lose its process before it is given up. */
const MAX_STALLED = 3;

/** Hears the schedule fire, until it is closed. Every fire makes the next one of its job, so a late one is one. */
export function listenForFires({ store, emulated, onFire, onError }: FireOptions): {
  close(): Promise<void>;
} {
  const worker = new Worker<FireData>(
    scheduleQueue(emulated),
    async (entry, token) => {
      const fire = fireOf(entry);
      // Somebody else's entry in the queue; there is nothing to run for it.
      if (fire === null) return;
      if ((await onFire(fire)) === 'taken') return;
      await entry.moveToWait(token ?? '');
      throw new WaitingError();
    },
    {
      connection: store.connectionFor('worker'),
      concurrency: AT_ONCE,
      maxStalledCount: MAX_STALLED,
    },
    store.backendFactory,
  );
  worker.on('error', onError);
  return worker;
}

function fireOf(entry: Job<FireData>): Fire | null {
  const data = fireData.safeParse(entry.data);
  // BullMQ's id of an iteration ends with its time.
  const due = /:(\d+)$/.exec(entry.id ?? '')?.[1];
  if (!data.success || entry.id === undefined || due === undefined) return null;
  return { entry: entry.id, ...data.data, due: new Date(Number(due)) };
}
