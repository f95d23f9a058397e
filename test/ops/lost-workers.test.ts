import { describe, expect, it } from 'vitest';
import { LostWorkers, WORKER_LOST_MS } from '../../src/ops/lost-workers.js';
import { workerBeat } from './samples.js';

/** Time from one look to the next, in milliseconds. */
const LOOK = 2_000;

/** Looks again and again; each look has the ages of the beats, in milliseconds. */
class Looks {
  readonly lost = new LostWorkers();
  now = 1_000_000;

  look(ages: Readonly<Record<string, number>>, after = LOOK): string[] {
    this.now += after;
    const beats = Object.entries(ages).map(([id, ageMs]) => ({ beat: workerBeat({ id }), ageMs }));
    return [...this.lost.looked(beats, this.now)];
  }

  /** Everybody is heard of for as long as it takes until silence counts. */
  settle(...ids: string[]): void {
    const ages = Object.fromEntries(ids.map((id) => [id, 100]));
    for (let ms = 0; ms <= WORKER_LOST_MS; ms += LOOK) expect(this.look(ages)).toEqual([]);
  }
}

describe('workers', () => {
  it('are lost after ten seconds of silence, while others are heard of', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    for (const age of [2_100, 4_100, 6_100, 8_100]) expect(looks.look({ a: 100, b: age })).toEqual([]);
    expect(looks.look({ a: 100, b: 10_100 })).toEqual(['b']);
  });

  it('are lost ten seconds after their beat was removed, or outlived its time', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    for (let look = 1; look < 5; look++) expect(looks.look({ a: 100 })).toEqual([]);
    expect(looks.look({ a: 100 })).toEqual(['b']);
  });

  it('stay lost until what they held is taken back, and are heard of again when they beat', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    for (let look = 1; look < 5; look++) looks.look({ a: 100 });
    expect(looks.look({ a: 100 })).toEqual(['b']);
    expect(looks.look({ a: 100 })).toEqual(['b']);
    looks.lost.requeued(new Set(['b']));
    expect(looks.look({ a: 100 })).toEqual([]);
    // Its last beat can still be read, and says nothing new.
    expect(looks.look({ a: 100, b: 16_100 })).toEqual([]);
    expect(looks.look({ a: 100, b: 100 })).toEqual([]);
    for (let look = 1; look < 5; look++) expect(looks.look({ a: 100 })).toEqual([]);
    expect(looks.look({ a: 100 })).toEqual(['b']);
  });

  it('are given time to be heard of again after nobody was: the store was away, frozen or full', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    for (const age of [5_100, 30_000, 60_000]) expect(looks.look({ a: age, b: age })).toEqual([]);
    expect(looks.look({ a: 100, b: 62_000 }), 'one of them is back').toEqual([]);
    expect(looks.look({ a: 100, b: 64_000 })).toEqual([]);
    expect(looks.look({ a: 100, b: 100 })).toEqual([]);
    expect(looks.look({ a: 100, b: 100 })).toEqual([]);
  });

  it('are given time after nobody looked: the process was asleep, or the store did not answer it', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    expect(looks.look({ a: 100, b: 60_000 }, 60_000)).toEqual([]);
    for (const age of [62_000, 64_000, 66_000, 68_000]) expect(looks.look({ a: 100, b: age })).toEqual([]);
    expect(looks.look({ a: 100, b: 70_000 })).toEqual(['b']);
  });

  it('are not lost by a clock of the store that was set forward', () => {
    const looks = new Looks();
    looks.settle('a', 'b');
    expect(looks.look({ a: 3_600_100, b: 3_600_100 })).toEqual([]);
    expect(looks.look({ a: 100, b: 3_602_100 })).toEqual([]);
    expect(looks.look({ a: 100, b: 100 })).toEqual([]);
  });

  it('are found by somebody who sees them only when they are silent already', () => {
    const looks = new Looks();
    expect(looks.look({ a: 100, b: 16_100 })).toEqual([]);
    for (let look = 1; look < 5; look++) expect(looks.look({ a: 100 })).toEqual([]);
    expect(looks.look({ a: 100 })).toEqual(['b']);
  });
});
