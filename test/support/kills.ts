import fc from 'fast-check';
import { expect } from 'vitest';
import type { Workplace } from './promptmill.js';
import type { ScriptedService } from './scripted-service.js';

/** Calls after which a run is killed, in order, and how many milliseconds later, at any moment of a call. */
type Moments = readonly (readonly [calls: number, ms: number])[];

/** Kills of a command at random times. Its service says of each call that it has come. */
export class Kills {
  readonly #seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
  #onCall: () => void = () => {};
  #over: Promise<void> | null = null;

  /** @param isLast the call is that of the last row. It is answered when all kills are over: no run ends before, however fast it is */
  async called(isLast: boolean): Promise<void> {
    this.#onCall();
    if (isLast) await this.#over;
  }

  /**
   * Runs a command again and again, and kills it each time with SIGKILL.
   * @param calls that it makes at least
   */
  async run(
    { work, service }: { readonly work: Workplace; readonly service: Pick<ScriptedService, 'requests'> },
    command: readonly string[],
    env: Readonly<Record<string, string>>,
    { kills, calls }: { readonly kills: number; readonly calls: number },
  ): Promise<void> {
    console.log(`killed at random times, SEED=${this.#seed}`);
    let end = (): void => {};
    this.#over = new Promise((resolve) => {
      end = resolve;
    });
    const before = service.requests.length;
    // Another store, other moments.
    for (const [after, ms] of momentsOf(kills, calls, this.#seed + (env['PROMPTMILL_QUEUE']?.length ?? 0))) {
      const running = work.start(command, env);
      this.#onCall = () => {
        if (service.requests.length - before < after) return;
        this.#onCall = () => {};
        setTimeout(() => running.process.kill('SIGKILL'), ms);
      };
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(null);
    }
    this.#onCall = () => {};
    end();
  }
}

/**
 * One in each part of the run: rows that are in flight at four kills in a row would be taken for the cause (fault 44).
 * @param calls before the last of them, at most
 */
export function momentsOf(count: number, calls: number, seed: number): Moments {
  const part = Math.floor(calls / count);
  const moment = fc.tuple(fc.integer({ min: 1, max: part }), fc.integer({ min: 0, max: 30 }));
  const [moments = []] = fc.sample(fc.array(moment, { minLength: count, maxLength: count }), {
    numRuns: 1,
    seed,
  });
  return moments.map(([call, ms], i) => [i * part + call, ms]);
}

/** What of the records no run has like another. */
export const withoutTimes = (records: readonly Record<string, string>[]) =>
  records.map(({ latency_ms: _, ...record }) => record);
