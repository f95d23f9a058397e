import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Logger } from 'pino';
import { Halt } from '../../core/halt.js';
import type { Tick, TickEnd } from './schedule.js';
import type { JobState, JobStates, LastRun } from './serve-state.js';

/** An `interrupted` run is completed by the next `serve`. */
export type ScheduledRunEnd = Omit<LastRun, 'ended_at'>;

export interface ScheduledRun {
  readonly job: string;
  /** Absolute path of the job file. */
  readonly path: string;
  readonly halt: Halt;
  /** Aborted when the process has to leave, even if the run was halted before for its own reason. */
  readonly leave: AbortSignal;
  /** Called with the path of the manifest once there is one. */
  readonly onBegun: (manifest: string) => Promise<void>;
}

export interface SchedulerOptions {
  readonly states: JobStates;
  readonly jobs: number;
  /** Runs a job until it ends or is halted. Never throws: a run that cannot start has ended too. */
  readonly run: (run: ScheduledRun) => Promise<ScheduledRunEnd>;
  readonly log: Logger;
  /** Whether this `serve` was told to follow the job file. */
  readonly follows: (path: string) => boolean;
  /** When this process began to serve: catches up with what was due before. */
  readonly startedAt: Date;
}

interface PendingRun {
  readonly tick: Tick;
  readonly resumed: boolean;
  readonly settle: (end: TickEnd) => void;
  /** For when the tick is handed out again meanwhile: the queue must keep it until then. */
  readonly settled: Promise<TickEnd>;
}

interface ActiveRun {
  readonly since: Date;
  readonly resumed: boolean;
  readonly halt: Halt;
  /** Resolves when the end of the run is on disk. */
  readonly over: Promise<void>;
}

/** Decides about each tick: never two runs of one job at a time, and no tick lost. */
export class Scheduler {
  readonly #atWork = new Map<string, ActiveRun>();
  #wanted: PendingRun[] = [];
  readonly #leave = new AbortController();

  constructor(private readonly options: SchedulerOptions) {}

  get running(): string[] {
    return [...this.#atWork.keys()];
  }

  /** Continues what an earlier `serve` left unfinished. Call it before any tick. */
  async resume(): Promise<void> {
    const { states, log, follows } = this.options;
    for (const state of states.unfinished()) {
      const { job, path, entry, since, manifest } = state;
      if (!follows(path)) {
        log.warn(
          { job, path, since },
          'its run was interrupted, and this serve was not told to follow that job file',
        );
        continue;
      }
      // Killed between the end of the run and the note of it: beginning again would pay again.
      if (manifest !== null && !existsSync(manifest)) {
        log.info({ job, since }, 'its run had finished when the last serve ended');
        await this.#note({ ...state, running: false });
        continue;
      }
      log.info({ job, since }, 'its run was interrupted, and goes on');
      const tick = { entry, job, path, due: new Date(since) };
      this.#wanted.push({ tick, resumed: true, settle: () => {}, settled: Promise.resolve('taken') });
    }
    this.#startNext();
  }

  /** Resolves when the queue need not keep the tick any more, or should take it back. */
  async ticked(tick: Tick): Promise<TickEnd> {
    const { job, entry, due } = tick;
    const { states, log, follows, startedAt } = this.options;
    if (this.#leave.signal.aborted) return 'left';
    // Anyone who can write to the store could name any file of this machine (fault 58).
    if (!follows(tick.path)) {
      log.error({ job, path: tick.path }, 'refused: this serve was not told to follow that job file');
      return 'taken';
    }
    // Handed out again, because the process that took it was killed or frozen.
    if (states.get(job)?.entry === entry) return 'taken';
    const again = this.#wanted.find((wanted) => wanted.tick.entry === entry && !wanted.resumed);
    if (again !== undefined) return again.settled;
    const running = this.#atWork.get(job);
    const waiting = this.#wanted.filter((wanted) => wanted.tick.job === job);
    const ahead = [...(running === undefined ? [] : [running]), ...waiting];
    // The tick that catches up with downtime follows the run that downtime interrupted; all others give way.
    if (ahead.length > 0 && !(due < startedAt && ahead.every(({ resumed }) => resumed))) {
      const since = running?.since.toISOString();
      log.warn(
        { job, due },
        since ? `skipped: still running since ${since}` : 'skipped: still waits for its turn',
      );
      return 'taken';
    }
    if (due < startedAt) log.info({ job, due }, 'catching up with what was due while nothing served');
    let settle: PendingRun['settle'] = () => {};
    const settled = new Promise<TickEnd>((resolve) => {
      settle = resolve;
    });
    this.#wanted.push({ tick, resumed: false, settle, settled });
    this.#startNext();
    return settled;
  }

  /** Halts every run so that it can be resumed, and waits for all. Waiting ticks go back to the queue. */
  async leave(signal: 'SIGINT' | 'SIGTERM'): Promise<void> {
    this.#leave.abort();
    for (const { settle } of this.#wanted.splice(0)) settle('left');
    const runs = [...this.#atWork.values()];
    for (const { halt } of runs) halt.request({ kind: 'signal', signal });
    await Promise.all(runs.map(({ over }) => over));
  }

  #startNext(): void {
    for (const wanted of [...this.#wanted]) {
      if (this.#leave.signal.aborted || this.#atWork.size >= this.options.jobs) return;
      const { job } = wanted.tick;
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

  async #work({ tick, resumed, settle }: PendingRun, since: Date, halt: Halt): Promise<void> {
    const { states, run } = this.options;
    const { job, path, entry } = tick;
    const last = states.get(job)?.last ?? null;
    const manifest = resumed ? (states.get(job)?.manifest ?? null) : null;
    let state = { job, path, entry, since: since.toISOString(), running: true, manifest, last };
    await this.#note(state);
    settle('taken');
    const onBegun = async (path: string): Promise<void> => {
      state = { ...state, manifest: resolve(path) };
      await this.#note(state);
    };
    const end = await run({ job, path, halt, leave: this.#leave.signal, onBegun });
    const ended = { ...end, ended_at: new Date().toISOString() };
    // A run that could not be continued is still there: its store was in use, or its job file being edited.
    const left = resumed && end.state === 'not started' && manifest !== null && existsSync(manifest);
    await this.#note({ ...state, running: end.state === 'interrupted' || left, last: ended });
  }

  /** A full disk must not keep a job from its run, which may not need the space. */
  async #note(state: Omit<JobState, 'v'>): Promise<void> {
    const { states, log } = this.options;
    await states
      .put(state)
      .catch((error) => log.error({ job: state.job, err: error }, 'cannot note how its run stands'));
  }
}
