import fc from 'fast-check';
import { expect } from 'vitest';
import type { Workplace } from './promptmill.js';
import type { ScriptedService } from './scripted-service.js';

/** Kills of a run: calls after which it is killed, in order, and how many milliseconds later, at any moment of a call. */
type Kills = readonly (readonly [calls: number, ms: number])[];

/** @param calls that the run makes at least */
export function randomKills(count: number, calls: number, seed: number): Kills {
  const moment = fc.tuple(fc.integer({ min: 1, max: calls }), fc.integer({ min: 0, max: 30 }));
  const [kills = []] = fc.sample(fc.array(moment, { minLength: count, maxLength: count }), {
    numRuns: 1,
    seed,
  });
  return kills.toSorted(([a], [b]) => a - b);
}

/** Runs a job, or another command, again and again, and kills it each time with SIGKILL. Its last answer has to wait until all kills are over. */
export async function runAndKill(
  { work, service }: { readonly work: Workplace; readonly service: Pick<ScriptedService, 'requests'> },
  {
    job,
    command = ['run', job],
    env,
    kills,
  }: {
    readonly job: string;
    readonly command?: readonly string[];
    readonly env: Record<string, string>;
    readonly kills: Kills;
  },
  /** Has the service tell of each call, or of none. */
  tell: (onCall: () => void) => void,
): Promise<void> {
  const before = service.requests.length;
  for (const [calls, ms] of kills) {
    const running = work.start(command, env);
    tell(() => {
      if (service.requests.length - before < calls) return;
      tell(() => {});
      setTimeout(() => running.process.kill('SIGKILL'), ms);
    });
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(null);
  }
  tell(() => {});
}

/** What of the records no run has like another. */
export const withoutTimes = (records: readonly Record<string, string>[]) =>
  records.map(({ latency_ms: _, ...record }) => record);
