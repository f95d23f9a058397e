import { readFileSync, symlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ScriptRule } from '../../src/emulator/fault-plan.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import type { Stats } from '../../src/emulator/stats.js';
import { outputFiles } from '../../src/resume/output-files.js';
import { type Ended, type Running, Workplace } from '../support/promptmill.js';
import { type Server, startRedis } from '../support/servers.js';
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.js';
import { unknownAfter } from '../support/unknown.js';
import { MemoryWatch } from './memory.js';

export const STORES = ['redis', 'embedded'] as const;
export type StoreKind = (typeof STORES)[number];

/** Of each process that calls. */
const CONCURRENCY = 16;
const WORKERS = 2;
/** Of the emulator, in milliseconds. */
export const LATENCY_MS = 20;
/** Longest time of a call: so long a hanging one costs. */
const TIMEOUT_S = 10;
export const OUTPUT = 'disk/out.csv';
/** Of an output that nobody disturbs. */
export const REFERENCE = 'reference.csv';
/** What of a record does not depend on when and how often its row was called. */
const COLUMNS = ['input', 'status', 'answer', 'text', 'finish_reason'];
const OPINIONS = [
  'It works well, though the strap is short. I love it!',
  'Broken on arrival. Terrible.',
  'It is a table.',
  'Would buy it again, and say "thank you".',
];

/** Node runs it before Promptmill: at a signal the clock of the machine is another one. */
const CLOCK = `
import { readFileSync } from 'node:fs';
const { now } = Date;
let shift = 0;
Date.now = () => now.call(Date) + shift;
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [Date.now()] : args));
  }
};
process.on('SIGUSR2', () => {
  shift = Number(readFileSync(process.env.SOAK_SHIFT, 'utf8'));
});
`;

/** A process of the run that is started again whenever it has ended. */
export interface Part {
  readonly role: 'producer' | 'worker';
  /** Null between two of them. */
  running: Running | null;
  /** The next one is started when this is over. */
  pause: Promise<unknown>;
  /** How it may end, besides with 0 at the end: it was killed, or its disk fails. */
  mayEnd: 'not' | 'killed' | 'without disk';
}

/** A run that is to survive: its folder, its service, its store, and the processes that work on it. */
export class Stage {
  readonly work = new Workplace();
  readonly memory = new MemoryWatch();
  readonly producer: Part = { role: 'producer', running: null, pause: Promise.resolve(), mayEnd: 'not' };
  readonly workers: readonly Part[];
  /** Ends of processes that nobody caused. */
  readonly oddEnds: string[] = [];
  /**
   * Calls, at most, that are made again although they may have been answered: those of a killed caller, and those that
   * workers have reserved when another producer begins, which adds their rows again.
   */
  unknown = 0;
  /** Every row is written, and the output has its name. */
  isFinished = false;
  /** Of the store: a process that is started meanwhile says so, and ends with 2. */
  isAway = false;
  /** What the service had received when all processes had ended. */
  received: Stats | null = null;
  #isOver = false;
  readonly #kept: Promise<void>[] = [];
  readonly #began = performance.now();

  private constructor(
    readonly rows: number,
    readonly store: StoreKind,
    readonly server: Server | null,
    readonly emulator: Emulator,
    readonly disk: SmallDisk | null,
    readonly diskKib: number,
    /** Of the emulator; the first that matches a request applies. */
    readonly rules: ScriptRule[],
  ) {
    this.workers = Array.from({ length: server === null ? 0 : WORKERS }, () => ({
      ...{ role: 'worker', running: null, pause: Promise.resolve(), mayEnd: 'not' },
    }));
  }

  static async set(rows: number, store: StoreKind, latencyMs: number): Promise<Stage> {
    const server = store === 'embedded' ? null : await startRedis();
    const rules: ScriptRule[] = [];
    const emulator = await startEmulator({ script: rules, latency: { baseMs: latencyMs, perTokenMs: 0 } });
    // Records, the part file that becomes the output, and the small files beside it.
    const diskKib = 8_192 + Math.ceil(rows / 2);
    const stage = new Stage(rows, store, server, emulator, mountedDisk(diskKib), diskKib, rules);
    stage.#write();
    return stage;
  }

  #write(): void {
    const { work } = this;
    if (this.disk === null) work.write('disk/.keep', '');
    else symlinkSync(this.disk.path, work.path('disk'));
    work.write('clock.mjs', CLOCK);
    const line = (row: number): string =>
      `${row},"Item ${row}. ${OPINIONS[row % OPINIONS.length]?.replaceAll('"', '""')}"\n`;
    work.write('rows.csv', `id,review\n${Array.from({ length: this.rows }, (_, i) => line(i + 1)).join('')}`);
    const job = {
      name: 'soak',
      input: { path: 'rows.csv' },
      prompt: 'Is the review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
      parameters: { temperature: 0, max_tokens: 5 },
      answer: { labels: ['positive', 'negative', 'neutral'] },
    };
    work.job({
      ...job,
      output: { path: OUTPUT, columns: COLUMNS },
      limits: { concurrency: CONCURRENCY, timeout_seconds: TIMEOUT_S },
    });
    const packed = { concurrency: 8, prompts_per_request: 100 };
    work.job({ ...job, output: { path: REFERENCE, columns: COLUMNS }, limits: packed }, 'reference.yaml');
  }

  get parts(): readonly Part[] {
    return [this.producer, ...this.workers];
  }

  /** The parts that make calls. */
  get callers(): readonly Part[] {
    return this.workers.length > 0 ? this.workers : [this.producer];
  }

  /** Of one caller. */
  get unknownOfOne(): number {
    return unknownAfter(CONCURRENCY);
  }

  /** Every process is started, and again when it has ended. */
  begin(): void {
    for (const part of this.parts) this.#kept.push(this.#keep(part));
  }

  async #keep(part: Part): Promise<void> {
    while (!this.#isOver && !this.isFinished) {
      part.mayEnd = 'not';
      part.running = this.#start(part.role);
      const ended = await part.running.ended;
      part.running = null;
      this.#judge(part, ended);
      if (part.role === 'producer' && ended.code === 0) this.isFinished = true;
      if (part.role === 'producer') this.unknown += this.workers.length * this.unknownOfOne;
      await part.pause;
    }
  }

  #start(role: Part['role']): Running {
    const flags = this.workers.length > 0 ? ['--no-work'] : [];
    const args =
      role === 'worker'
        ? ['work', '--concurrency', String(CONCURRENCY)]
        : ['run', 'job.yaml', '--quiet', ...flags];
    return this.work.start(args, {
      PROMPTMILL_BASE_URL: this.emulator.url,
      PROMPTMILL_API_KEY: this.emulator.keys[0],
      PROMPTMILL_QUEUE: this.server?.url ?? 'embedded',
      NODE_OPTIONS: `--import=${this.work.path('clock.mjs')}`,
      SOAK_SHIFT: this.work.path('shift'),
    });
  }

  #judge({ role, mayEnd }: Part, { code, stdout, stderr }: Ended): void {
    const isMeant =
      (code === null && mayEnd === 'killed') ||
      ((code === 3 || code === 2) && mayEnd === 'without disk' && /ENOSPC|EROFS/.test(stderr)) ||
      (code === 2 && this.isAway) ||
      (code === 0 && (role === 'producer' || this.#isOver)) ||
      // By its signal, when it is asked to end before it has begun.
      ((code === 143 || code === null) && role === 'producer' && this.#isOver);
    const said = `${stdout}\n${stderr}`;
    if (!isMeant)
      this.oddEnds.push(`a ${role} ended with ${code} (it might ${mayEnd}): ${said.slice(-2_000)}`);
    if (said.includes(this.emulator.keys[0])) this.oddEnds.push(`a ${role} printed the key`);
  }

  /** Ends a process at once; the next one is started when the pause is over. Waits for one that is about to be started. */
  async kill(part: Part, pause: Promise<unknown>): Promise<void> {
    const running = await this.runningOf(part);
    if (running === null) return;
    part.mayEnd = 'killed';
    part.pause = pause;
    if (this.callers.includes(part)) this.unknown += this.unknownOfOne;
    running.process.kill('SIGKILL');
    await running.ended;
  }

  /** Null when the run has finished before the process was there again. */
  async runningOf(part: Part): Promise<Running | null> {
    while (part.running === null) {
      if (this.isFinished || this.oddEnds.length > 0) return null;
      await sleep(20);
    }
    return part.running;
  }

  /** Resolves when a producer is at work that has begun after this call. */
  async begun(): Promise<void> {
    const before = this.#manifest().execution;
    while (!this.isFinished && this.oddEnds.length === 0 && this.#manifest().execution <= before)
      await sleep(20);
  }

  /** Rows whose records are on disk. */
  rowsOnDisk(): number {
    return this.isFinished ? this.rows : this.#manifest().rows;
  }

  #manifest(): { readonly rows: number; readonly execution: number } {
    try {
      const { rows, execution } = this.work.json(outputFiles(OUTPUT).manifest);
      return { rows: Number(rows), execution: Number(execution) };
    } catch {
      // Not begun yet, or just finished.
      return { rows: 0, execution: 0 };
    }
  }

  /** Since the beginning. */
  seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  watchMemory(): void {
    for (const { role, running } of this.parts)
      if (running?.process.pid) this.memory.look(role, running.process.pid);
    if (this.store === 'redis' && this.server !== null) this.memory.look('store', this.server.pid);
    this.memory.look('emulator', process.pid);
  }

  /** Everybody is asked to end, and does. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const part of this.parts) {
      part.running?.process.kill('SIGTERM');
      await part.running?.ended;
    }
    await Promise.all(this.#kept);
    this.received = this.emulator.stats();
  }

  async remove(): Promise<void> {
    this.#isOver = true;
    for (const { running } of this.parts) running?.process.kill('SIGKILL');
    await this.emulator.close();
    await this.server?.stop();
    this.disk?.remove();
    this.work.remove();
  }
}

/** Null where the system mounts none. */
function mountedDisk(kib: number): SmallDisk | null {
  try {
    return mountSmallDisk(kib);
  } catch {
    return null;
  }
}

/** Whether a process hears a signal by its number, and does not just end by it. */
export function hears(pid: number, signal: number): boolean {
  let status = '';
  try {
    status = readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    // It has just ended.
  }
  const [, caught = '0'] = /^SigCgt:\s+(\w+)$/m.exec(status) ?? [];
  return ((BigInt(`0x${caught}`) >> BigInt(signal - 1)) & 1n) === 1n;
}
