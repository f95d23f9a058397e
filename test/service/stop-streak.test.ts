import { describe, expect, it } from 'vitest';
import { StopStreak } from '../../src/service/stop-streak.js';
import type { Certainty, Unsettled, Verdict } from '../../src/service/verdict.js';
import { outcome } from '../store/samples.js';

const failed = { problem: { code: 'odd', message: 'an odd answer' }, latency_ms: 1, possiblyBilled: true };
const answer: Verdict = { kind: 'final', outcome: outcome('text') };
const retry: Unsettled = { kind: 'retry', ...failed, connected: true };
const noText: Unsettled = { ...retry, hint: 'Mend it.' };
const stop = (certainty: Certainty): Unsettled => ({ ...noText, kind: 'stop', certainty });

/** Whether a call for a row, with this verdict, stops the run. */
const stops = (streak: StopStreak, verdict: Verdict, row = 'row 1'): boolean =>
  streak.judge(row, [verdict])[0]?.kind === 'stop';
const many = (streak: StopStreak, certainty: Certainty, times: number): boolean[] =>
  Array.from({ length: times }, () => stops(streak, stop(certainty)));

describe('refusals in a row', () => {
  it('stop a run at the first while nothing was answered, and after an answer at the tenth', () => {
    expect(stops(new StopStreak(true), stop('likely'))).toBe(true);
    const streak = new StopStreak(true);
    streak.judge('row 1', [answer]);
    expect(many(streak, 'likely', 10)).toEqual([...Array(9).fill(false), true]);
  });

  it('fault 80: stop nothing while answers come between them', () => {
    const streak = new StopStreak(true);
    for (let i = 0; i < 20; i++) {
      streak.judge('row 1', [answer]);
      expect(many(streak, 'likely', 9)).not.toContain(true);
    }
  });

  it('that are web pages stop a run at the third, and after an answer never', () => {
    const streak = new StopStreak(true);
    expect(many(streak, 'vague', 3)).toEqual([false, false, true]);
    streak.judge('row 1', [answer]);
    expect(many(streak, 'vague', 50)).not.toContain(true);
  });

  it('fault 75: ten rows without a text, one after the other, stop a run; fewer do not, however often they are called', () => {
    const streak = new StopStreak(true);
    for (let call = 0; call < 100; call++) expect(stops(streak, noText, `row ${call % 9}`)).toBe(false);
    streak.judge('row 1', [answer]);
    const ten = Array.from({ length: 10 }, (_, i) => stops(streak, noText, `row ${i}`));
    expect(ten).toEqual([...Array(9).fill(false), true]);
  });

  it('stop a run at once when the account refuses', () => {
    const streak = new StopStreak(true);
    streak.judge('row 1', [answer]);
    expect(stops(streak, stop('sure'))).toBe(true);
  });
});

describe('the verdicts on a call', () => {
  it('say what to fix when the run stops, and also where the row is tried again for now', () => {
    const problem = { code: 'odd', message: 'an odd answer. Mend it.' };
    const streak = new StopStreak(true);
    expect(streak.judge('row 1', [stop('vague')])).toMatchObject([{ kind: 'retry', problem, latency_ms: 1 }]);
    expect(streak.judge('row 1', [stop('likely')])).toMatchObject([{ kind: 'stop', problem }]);
  });

  it('on a retry that is no sign of the service stay as they are', () => {
    const streak = new StopStreak(true);
    for (let i = 0; i < 50; i++) expect(streak.judge(`row ${i}`, [retry])).toEqual([retry]);
  });

  it('fault 75: without a text count as answered beside a row that has one', () => {
    const streak = new StopStreak(true);
    for (let i = 0; i < 50; i++) expect(streak.judge(`row ${i}`, [answer, noText])).toEqual([answer, noText]);
  });

  it('stop a run that never reached the service, and are retries once it was reached', () => {
    const streak = new StopStreak(false);
    const refused: Unsettled = { ...retry, connected: false };
    expect(streak.judge('row 1', [refused])).toMatchObject([
      { kind: 'stop', problem: { code: 'service_unreachable' } },
    ]);
    streak.judge('row 1', [retry]);
    expect(streak.judge('row 1', [refused])).toEqual([refused]);
  });
});
