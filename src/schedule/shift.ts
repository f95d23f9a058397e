import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Logger } from 'pino';
import { Halt } from '../halt.js';
import type { Fire, FireEnd } from './fires.js';
import type { LastRun } from './last-run.js';
import type { Mark, Marks } from './marks.js';

/** How a run that was fired ended: one that was `interrupted` is completed by the next `serve`. */
export type NightEnd = Omit<LastRun, 'ended_at'>;

/** What a run of the night is given. */
export interface NightRun {
  readonly job: string;
  /** Absolute path of the job file. */
  readonly path: string;
  readonly halt: Halt;
  /** Aborted when the process has to leave, also when the run was halted before for a reason of its own. */
  readonly leave: AbortSignal;
  /** To be told where the manifest is, once there is one. */
  readonly onBegun: (manifest: string) => Promise<void>;
}

export interface ShiftOptions {
  readonly marks: Marks;
  /** Jobs that run at the same time at most. */
  readonly jobs: number;
  /** Runs a job to its end, or to where it is halted. Never throws: a run that cannot start has ended too. */
  readonly run: (run: NightRun) => Promise<NightEnd>;
  readonly log: Logger;
  /** Whether a job file is among those that this `serve` was told to follow. */
  readonly follows: (path: string) => boolean;
  /** When this process began to serve: what was due before is caught up with. */
  readonly startedAt: Date;
}

/** A run that waits for its turn. */
interface Wanted {
  readonly fire: Fire;
  /** It was begun by an earlier `serve`. */
  readonly resumed: boolean;
  readonly settle: (end: FireEnd) => void;
  /** For the fire when it is handed out again meanwhile: the queue must keep it until then. */
  readonly settled: Promise<FireEnd>;
}

interface AtWork {
  readonly since: Date;
  readonly resumed: boolean;
  readonly halt: Halt;
  /** Resolves when the run is over and that is on disk. */
  readonly over: Promise<void>;
}

/** Decides what becomes of each fire: never two runs of one job at a time, and no fire lost. */
export class Shift {
  readonly #atWork = new Map<string, AtWork>();
  #wanted: Wanted[] = [];
  readonly #leave = new AbortController();

  constructor(private readonly options: ShiftOptions) {}

  /** Names of the jobs that run now. */
  get running(): string[] {
    return [...this.#atWork.keys()];
  }

  /** Begins again what an earlier `serve` left unfinished. Comes before any fire. */
  async resume(): Promise<void> {
    const { marks, log, follows } = this.options;
    for (const mark of marks.unfinished()) {
      const { job, path, entry, since, manifest } = mark;
      if (!follows(path)) {
        log.warn(
          { job, path, since },
          'its run was interrupted, and this serve was not told to follow that job file',
        );
        continue;
      }
      // Killed between the end of the run and the note of it: to begin again would be to pay again.
      if (manifest !== null && !existsSync(manifest)) {
        log.info({ job, since }, 'its run had finished when the last serve ended');
        await this.#mark({ ...mark, running: false });
        continue;
      }
      log.info({ job, since }, 'its run was interrupted, and goes on');
      const fire = { entry, job, path, due: new Date(since) };
      this.#wanted.push({ fire, resumed: true, settle: () => {}, settled: Promise.resolve('taken') });
    }
    this.#startNext();
  }

  /** Resolves when the queue need not keep the fire any more, or is to have it back. */
  async fired(fire: Fire): Promise<FireEnd> {
    const { job, entry, due } = fire;
    const { marks, log, follows, startedAt } = this.options;
    if (this.#leave.signal.aborted) return 'left';
    // Whoever can write to the store could name any file of this machine (fault 58).
    if (!follows(fire.path)) {
      log.error({ job, path: fire.path }, 'refused: this serve was not told to follow that job file');
      return 'taken';
    }
    // Handed out again, because its process was killed or frozen when it had taken it.
    if (marks.get(job)?.entry === entry) return 'taken';
    const again = this.#wanted.find((wanted) => wanted.fire.entry === entry && !wanted.resumed);
    if (again !== undefined) return again.settled;
    const running = this.#atWork.get(job);
    const waiting = this.#wanted.filter((wanted) => wanted.fire.job === job);
    const ahead = [...(running === undefined ? [] : [running]), ...waiting];
    // The one that catches up with downtime follows the run that downtime interrupted; all others give way.
    if (ahead.length > 0 && !(due < startedAt && ahead.every(({ resumed }) => resumed))) {
      const since = running?.since.toISOString();
      log.warn(
        { job, due },
        since ? `skipped: still running since ${since}` : 'skipped: still waits for its turn',
      );
      return 'taken';
    }
    if (due < startedAt) log.info({ job, due }, 'catching up with what was due while nothing served');
    let settle: Wanted['settle'] = () => {};
    const settled = new Promise<FireEnd>((resolve) => {
      settle = resolve;
    });
    this.#wanted.push({ fire, resumed: false, settle, settled });
    this.#startNext();
    return settled;
  }

  /** Halts every run, resumably, and resolves when all have ended. What waits goes back to the queue. */
  async leave(signal: 'SIGINT' | 'SIGTERM'): Promise<void> {
    this.#leave.abort();
    for (const { settle } of this.#wanted.splice(0)) settle('left');
    const runs = [...this.#atWork.values()];
    for (const { halt } of runs) halt.pull({ kind: 'signal', signal });
    await Promise.all(runs.map(({ over }) => over));
  }

  /** Starts what may start, in the order in which it came. */
  #startNext(): void {
    for (const wanted of [...this.#wanted]) {
      if (this.#leave.signal.aborted || this.#atWork.size >= this.options.jobs) return;
      const { job } = wanted.fire;
      if (this.#atWork.has(job)) continue;
      this.#wanted = this.#wanted.filter((other) => other !== wanted);
      const { resumed } = wanted;
      const [since, halt] = [new Date(), new Halt()];
      const over = this.#work(wanted, since, halt).finally(() => {
        this.#atWork.delete(job);
        this.#startNext();
      });
      this.#atWork.set(job, { since, resumed, halt, over });
    }
  }

  /** From the mark that the run is begun to the mark that it has ended. */
  async #work({ fire, resumed, settle }: Wanted, since: Date, halt: Halt): Promise<void> {
    const { marks, run } = this.options;
    const { job, path, entry } = fire;
    const last = marks.get(job)?.last ?? null;
    const manifest = resumed ? (marks.get(job)?.manifest ?? null) : null;
    let mark = { job, path, entry, since: since.toISOString(), running: true, manifest, last };
    await this.#mark(mark);
    settle('taken');
    const onBegun = async (path: string): Promise<void> => {
      mark = { ...mark, manifest: resolve(path) };
      await this.#mark(mark);
    };
    const end = await run({ job, path, halt, leave: this.#leave.signal, onBegun });
    const ended = { ...end, ended_at: new Date().toISOString() };
    // One that could not be continued is there still: its store was in use, its job file was being edited.
    const left = resumed && end.state === 'not started' && manifest !== null && existsSync(manifest);
    await this.#mark({ ...mark, running: end.state === 'interrupted' || left, last: ended });
  }

  /** A disk that is full must not keep a job from its run, which may be able to do without. */
  async #mark(mark: Omit<Mark, 'v'>): Promise<void> {
    const { marks, log } = this.options;
    await marks
      .put(mark)
      .catch((error) => log.error({ job: mark.job, err: error }, 'cannot note how its run stands'));
  }
}
