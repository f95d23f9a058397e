import { expect, type TestContext } from 'vitest';
import { mostPrefetched } from '../../src/worker/batcher.js';
import { type Running, Workplace } from './promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from './scripted-service.js';
import type { Server } from './servers.js';
import { unknownAfter } from './unknown.js';

/** What a run under a fault is made of. */
export interface TrialOptions {
  /** What `--queue` gets. */
  readonly queue: string;
  /** @default a directory of this trial */
  readonly stateDir?: string;
  /** Rows of the input; each has the prompt `row N`. */
  readonly rows: number;
  /** Calls in flight at once. @default 8 */
  readonly concurrency?: number;
  /** @default 10 */
  readonly chunkSize?: number;
  /** Time that a call takes, in milliseconds. @default 5 */
  readonly latencyMs?: number;
  /** What the service answers. @default `re row N` */
  readonly script?: Script;
  /** Further limits of the job. */
  readonly limits?: object;
}

/** What is allowed of a run that has ended. */
interface Allowed {
  /** Calls beyond one for each row: those in flight at each crash. A function, where they are known only at the end. */
  readonly repeats: number | (() => number);
  /** Rows that end `failed`, by number. @default none */
  readonly failed?: readonly number[];
}

/** `promptmill run` as a process, with what it has said so far. */
export interface TrialRun extends Running {
  /** What it has said on standard error so far. */
  said(): string;
  /** Waits for something that must happen while it runs. @throws Error with what it said, when it ends before */
  until<T>(happened: Promise<T>): Promise<T>;
  /** Resolves when standard error has a text that fits. */
  says(pattern: RegExp): Promise<void>;
}

/** A run under a fault: its folder, its service, which counts the calls of each row, and what must come out. */
export class Trial {
  readonly work = new Workplace();
  readonly concurrency: number;
  readonly rows: number;
  /** Calls that the service has taken and not answered. */
  inFlight = 0;
  readonly #job: string;
  readonly #runs: Running[] = [];
  readonly #waiting: { readonly calls: number; readonly resolve: () => void }[] = [];
  /**
   * The last row is answered when the test is through with its fault, so that no run ends before it; or when a run says
   * that it stops, which ends no sooner by it: a call that was held then would be given up, and made again later.
   */
  readonly #over: Promise<void>;
  #endFault: () => void = () => {};
  #held: Promise<void> | null = null;
  #release: () => void = () => {};
  #service: ScriptedService | null = null;

  private constructor(private readonly options: TrialOptions) {
    this.rows = options.rows;
    this.#over = new Promise((resolve) => {
      this.#endFault = resolve;
    });
    this.concurrency = options.concurrency ?? 8;
    this.#job = this.work.job({
      input: { path: this.work.rows(options.rows) },
      output: { path: 'out.csv' },
      limits: { concurrency: this.concurrency, chunk_size: options.chunkSize ?? 10, ...options.limits },
    });
  }

  static async begin(options: TrialOptions): Promise<Trial> {
    const trial = new Trial(options);
    const answer: Script =
      options.script ?? (({ prompt }) => ({ json: completionBody({ text: ` re ${prompt}` }) }));
    trial.#service = await startScriptedService(async (request) => {
      trial.inFlight++;
      try {
        for (const waiter of trial.#waiting.filter(({ calls }) => request.total >= calls)) waiter.resolve();
        await new Promise((resolve) => setTimeout(resolve, options.latencyMs ?? 5));
        await trial.#held;
        if (request.prompt === `row ${trial.rows}`) await trial.#over;
        return await answer(request);
      } finally {
        trial.inFlight--;
      }
    });
    return trial;
  }

  get service(): ScriptedService {
    if (this.#service === null) throw new Error('a trial begins with its service');
    return this.#service;
  }

  get env(): Record<string, string> {
    const { queue, stateDir } = this.options;
    return {
      PROMPTMILL_BASE_URL: this.service.url,
      PROMPTMILL_QUEUE: queue,
      ...(stateDir !== undefined && { PROMPTMILL_STATE_DIR: stateDir }),
    };
  }

  /** Starts the run, or continues it: the same command. */
  run(...flags: readonly string[]): TrialRun {
    return this.#start(['run', this.#job, ...flags], this.env);
  }

  /** The same command without a process of its own, which is cheaper: for a run to which nothing happens any more. */
  call(...flags: readonly string[]): Pick<Running, 'ended'> {
    return { ended: this.work.call(['run', this.#job, ...flags], this.env) };
  }

  /** Starts `promptmill work` on the queue of the run. */
  worker(...flags: readonly string[]): TrialRun {
    return this.#start(['work', ...flags], this.env);
  }

  /** The same command in an environment that differs. */
  runWith(env: Readonly<Record<string, string>>): TrialRun {
    return this.#start(['run', this.#job], { ...this.env, ...env });
  }

  #start(args: readonly string[], env: Record<string, string>): TrialRun {
    const running = this.work.start(args, env);
    this.#runs.push(running);
    let text = '';
    running.process.stderr?.on('data', (piece: string) => {
      text += piece;
      if (/^stopping\b/m.test(text)) this.endFault();
    });
    const until = <T>(happened: Promise<T>): Promise<T> =>
      Promise.race([
        happened,
        running.ended.then(({ code, stderr }) => {
          throw new Error(`ended too early with ${code}:\n${stderr}`);
        }),
      ]);
    const says = (pattern: RegExp): Promise<void> =>
      until(
        new Promise((resolve) => {
          const look = (): void => {
            if (pattern.test(text)) resolve();
          };
          look();
          running.process.stderr?.on('data', look);
        }),
      );
    return { ...running, said: () => text, says, until };
  }

  /** Resolves when the service has taken so many calls. */
  called(calls: number): Promise<void> {
    if (this.service.calls() >= calls) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ calls, resolve }));
  }

  /** Holds all answers back and resolves when as many calls are in flight as may be; no other call is made then. */
  async fill(running: TrialRun): Promise<void> {
    this.hold();
    await running.until(this.called(this.service.calls() + this.concurrency - this.inFlight));
  }

  /**
   * Answers what is held, and holds the next call. That one is waited for first: a call that has just come looks whether it
   * is held when its time is over.
   */
  async next(running: TrialRun): Promise<void> {
    const next = this.called(this.service.calls() + 1);
    this.release();
    await running.until(next);
    this.hold();
  }

  /** The service answers nothing from now on, until `release`. */
  hold(): void {
    this.#held ??= new Promise((resolve) => {
      this.#release = resolve;
    });
  }

  release(): void {
    this.#held = null;
    this.#release();
  }

  /** Calls for each row, in the order of the rows. */
  callsOfRows(): number[] {
    return Array.from({ length: this.rows }, (_, i) => this.service.calls(`row ${i + 1}`));
  }

  /** The test is through with its fault, or a run stops by it: the last row is answered. */
  endFault(): void {
    this.#endFault();
  }

  /** Calls that may be made again when the process or its store is lost. */
  get unknown(): number {
    return unknownAfter(this.concurrency);
  }

  /** Rows whose records are on disk, as the manifest of the unfinished run says. */
  rowsOnDisk(): number {
    return Number(this.work.json('out.csv.run.json')['rows']);
  }

  /**
   * The run has ended well: every row once and in order with its own answer, no more calls than allowed, all of
   * them counted, and the exit code for it. Leaves the figures with the test, for the table of faults.
   */
  async whole(running: Pick<Running, 'ended'>, allowed: Allowed, { task }: TestContext): Promise<void> {
    this.endFault();
    const { code, stderr } = await running.ended;
    const failed = new Set(allowed.failed);
    const figures = { rows: this.rows, calls: this.service.calls(), repeated: 0 };
    Object.assign(task.meta, { fault: figures });
    expect(code, stderr).toBe(failed.size > 0 ? 1 : 0);

    const records = this.work.records('out.csv');
    const numbers = Array.from({ length: this.rows }, (_, i) => i + 1);
    expect(records.map(({ id, status, answer }) => `${id} ${status} ${answer}`)).toEqual(
      numbers.map((row) => (failed.has(row) ? `${row} failed ` : `${row} completed re row ${row}`)),
    );
    const repeats = figures.calls - this.rows;
    const allowance = typeof allowed.repeats === 'number' ? allowed.repeats : allowed.repeats();
    expect(repeats, `calls of rows: ${this.#repeatedRows()}\n${stderr}`).toBeLessThanOrEqual(allowance);

    const { rows, calls } = this.#summary();
    figures.repeated = calls.repeated;
    expect(rows).toMatchObject({
      total: this.rows,
      completed: this.rows - failed.size,
      failed: failed.size,
    });
    expect(calls.sent, 'calls that the summary counts').toBeGreaterThanOrEqual(figures.calls);
    expect(calls.repeated, 'repeats that the summary counts').toBeGreaterThanOrEqual(repeats);
    // A process that is killed has reserved calls ahead as well, and nobody can tell them from those that it made.
    const most = allowance + mostPrefetched(allowance);
    expect(calls.repeated, 'repeats that the summary counts').toBeLessThanOrEqual(most);
    expect(stderr).not.toContain('a-key-for-tests-only');
  }

  #repeatedRows(): string {
    return this.callsOfRows()
      .flatMap((calls, i) => (calls > 1 ? `${i + 1}×${calls}` : []))
      .join(' ');
  }

  #summary(): { rows: Record<string, number>; calls: Record<'sent' | 'repeated', number> } {
    return JSON.parse(this.work.read('out.summary.json'));
  }

  /** Leaves nothing behind; what a run that did not end has said is shown, because the test has failed then. */
  async end(): Promise<void> {
    this.release();
    this.endFault();
    for (const { process, ended } of this.#runs) {
      if (process.exitCode === null && process.signalCode === null) {
        process.kill('SIGKILL');
        console.error(`a run that did not end:\n${(await ended).stderr}`);
      }
    }
    await this.service.close();
    this.work.remove();
  }
}

/** A trial on a server of its own, so that trials can go on beside each other. Neither outlives it. */
export async function trialOn(
  start: () => Promise<Server>,
  options: Omit<TrialOptions, 'queue'>,
  body: (trial: Trial, server: Server) => Promise<void>,
): Promise<void> {
  const server = await start();
  try {
    const trial = await Trial.begin({ ...options, queue: server.url });
    try {
      await body(trial, server);
    } finally {
      await server.kill('SIGCONT');
      await trial.end();
    }
  } finally {
    await server.stop();
  }
}
