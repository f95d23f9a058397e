import { describe, expect, it } from 'vitest';
import { StopStreak } from '../../src/service/stop-streak.js';

const many = (streak: StopStreak, certainty: 'likely' | 'vague', times: number): boolean[] =>
  Array.from({ length: times }, () => streak.stops(certainty));

describe('refusals in a row', () => {
  it('stop a run at the first while nothing was answered, and after an answer at the tenth', () => {
    expect(new StopStreak().stops('likely')).toBe(true);
    const streak = new StopStreak();
    streak.answered();
    expect(many(streak, 'likely', 10)).toEqual([...Array(9).fill(false), true]);
  });

  it('fault 80: stop nothing while answers come between them', () => {
    const streak = new StopStreak();
    for (let i = 0; i < 20; i++) {
      streak.answered();
      expect(many(streak, 'likely', 9)).not.toContain(true);
    }
  });

  it('that are web pages stop a run at the third, and after an answer never', () => {
    const streak = new StopStreak();
    expect(many(streak, 'vague', 3)).toEqual([false, false, true]);
    streak.answered();
    expect(many(streak, 'vague', 50)).not.toContain(true);
  });

  it('fault 75: ten rows without a text, one after the other, stop a run; fewer do not, however often they are called', () => {
    const streak = new StopStreak();
    for (let call = 0; call < 100; call++) expect(streak.stopsAfter(`row ${call % 9}`)).toBe(false);
    streak.answered();
    const stops = Array.from({ length: 10 }, (_, i) => streak.stopsAfter(`row ${i}`));
    expect(stops).toEqual([...Array(9).fill(false), true]);
  });

  it('stop a run at once when the account refuses', () => {
    const streak = new StopStreak();
    streak.answered();
    expect(streak.stops('sure')).toBe(true);
  });
});
