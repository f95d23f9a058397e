import { expect, it } from 'vitest';
import { RedisAdmin } from '../support/redis-admin.js';
import { completionBody } from '../support/scripted-service.js';
import type { Server } from '../support/servers.js';
import { describeRedis } from '../support/stores.js';
import { Trial, type TrialRun } from '../support/trial.js';

const ROWS = 120;

/** A run whose first row is not answered before the test says so: the answers to all others are known and not written. */
class Unwritten {
  readonly #answered = new Map<string, number>();
  isOpen = false;

  private constructor(
    readonly trial: Trial,
    private readonly server: Server,
  ) {}

  static async on(
    start: () => Promise<Server>,
    body: (unwritten: Unwritten) => Promise<void>,
  ): Promise<void> {
    const server = await start();
    const trial = await Trial.begin({
      queue: server.url,
      rows: ROWS,
      script: ({ prompt }) => run.#answer(prompt),
      limits: { attempts: 20 },
    });
    const run = new Unwritten(trial, server);
    trial.endFault();
    try {
      await body(run);
    } finally {
      await trial.end();
      await server.stop();
    }
  }

  #answer(prompt: string): object {
    if (prompt === 'row 1' && !this.isOpen) return { status: 500, json: { error: { message: 'not yet' } } };
    this.#answered.set(prompt, (this.#answered.get(prompt) ?? 0) + 1);
    return { json: completionBody({ text: ` re ${prompt}` }) };
  }

  /** Answers that the service has given. */
  get answers(): number {
    return [...this.#answered.values()].reduce((a, b) => a + b, 0);
  }

  /** Starts the run, or goes on with it; resolves when so many answers were given more, and the run has all of them on disk in figures. */
  async runUntil(answers: number, ...flags: readonly string[]): Promise<TrialRun> {
    const wanted = this.answers + answers;
    const running = this.trial.run(...flags);
    await running.until(expect.poll(() => this.answers).toBe(wanted));
    await running.until(
      expect.poll(() => this.trial.work.json('out.csv.run.json')['unwritten']).toBe(wanted),
    );
    return running;
  }

  /** The store comes back empty. */
  async empty(): Promise<void> {
    const admin = new RedisAdmin(this.server.url);
    await admin.client.flushall();
    admin.leave();
  }

  /** The store loses the answers to ten rows, and nothing else. */
  async loseTen(first: number): Promise<void> {
    const admin = new RedisAdmin(this.server.url);
    expect(await admin.client.del(...(await admin.client.keys(`promptmill:*:rows:${first}`)))).toBe(1);
    admin.leave();
  }

  async endBy(running: TrialRun, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    running.process.kill(signal);
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(signal === 'SIGTERM' ? 143 : null);
  }

  /**
   * Goes on to the end: each row once, and every answer that was one too many is counted.
   * @param kills so often the process was killed, perhaps with the call of the first row in flight, which counts as well
   */
  async finish(kills = 0): Promise<string> {
    this.isOpen = true;
    const { code, stderr } = await this.trial.call().ended;
    expect(code, stderr).toBe(0);
    const numbers = Array.from({ length: ROWS }, (_, i) => `${i + 1} completed re row ${i + 1}`);
    const records = this.trial.work.records('out.csv');
    expect(records.map(({ id, status, answer }) => `${id} ${status} ${answer}`)).toEqual(numbers);
    const twice = this.answers - ROWS;
    expect(twice).toBeGreaterThan(0);
    const { calls } = this.trial.work.json('out.summary.json') as { calls: { repeated: number } };
    expect(calls.repeated, stderr).toBeGreaterThanOrEqual(twice);
    expect(calls.repeated, stderr).toBeLessThanOrEqual(twice + kills);
    return stderr;
  }
}

describeRedis('outcomes that the store lost', (start) => {
  const others = ROWS - 1;

  it('fault 110: after a clean end, while nothing ran', () =>
    Unwritten.on(start, async (run) => {
      await run.endBy(await run.runUntil(others), 'SIGTERM');
      await run.empty();
      expect(await run.finish()).toContain(`has lost what it knew of the run: at least ${others} answers`);
    }));

  it('fault 110: before a clean end', () =>
    Unwritten.on(start, async (run) => {
      const running = await run.runUntil(others);
      await run.empty();
      await running.until(expect.poll(() => run.answers).toBe(2 * others));
      await run.endBy(running, 'SIGTERM');
      await run.finish();
    }));

  it('fault 110: some before a clean end and some after it', () =>
    Unwritten.on(start, async (run) => {
      const running = await run.runUntil(others);
      await run.loseTen(51);
      await run.endBy(running, 'SIGTERM');
      await run.loseTen(71);
      await run.finish();
    }));

  it('fault 110: after a kill', () =>
    Unwritten.on(start, async (run) => {
      await run.endBy(await run.runUntil(others), 'SIGKILL');
      await run.empty();
      await run.finish(1);
    }));

  it('fault 110: some after a kill, and the rest after a clean end', () =>
    Unwritten.on(start, async (run) => {
      await run.endBy(await run.runUntil(others), 'SIGKILL');
      await run.loseTen(51);
      const running = await run.runUntil(10);
      await run.endBy(running, 'SIGTERM');
      await run.empty();
      await run.finish(1);
    }));

  it('fault 110: answers of a worker on its own, before a clean end of the run', () =>
    Unwritten.on(start, async (run) => {
      const worker = run.trial.worker();
      const running = await run.runUntil(others, '--no-work');
      await run.empty();
      await running.until(expect.poll(() => run.answers).toBe(2 * others));
      await run.endBy(running, 'SIGTERM');
      worker.process.kill('SIGTERM');
      await worker.ended;
      await run.finish();
    }));
});
