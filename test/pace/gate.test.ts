import { describe, expect, it } from 'vitest';
import { type Entry, Gate } from '../../src/pace/gate.js';
import { Outage } from '../../src/pace/pauses.js';

const FAILED = {
  problem: { code: 'server_error', message: 'cannot do that (HTTP 500)' },
  ...{ connected: true, mayBeRequest: false, startedAt: 0 },
};

/** A gate whose pause is that of its outage, at a clock of the test's. */
function gated(now: number, isAlike = false) {
  const outage = new Outage();
  const fail = (row: number, startedAt = 0) =>
    outage.failed({ ...FAILED, rows: [`run:${row}`], mayBeRequest: isAlike, startedAt }, startedAt, 0);
  for (let row = 1; row <= 10; row++) fail(row);
  const withdrawn: number[] = [];
  const pacer = {
    takesPermits: false,
    get waitingMs() {
      return Math.max(0, (outage.view?.until ?? 0) - now);
    },
    admit: () => ({ permit: 7 }),
    space: () => undefined,
    withdrawn: (tokens: number) => withdrawn.push(tokens),
  };
  const gate = new Gate(pacer, outage, (call) => call());
  const made: string[] = [];
  const enter = (name: string, call: () => void | Promise<void> = () => {}, isMade = true): Promise<Entry> =>
    gate.enter(
      50,
      () => false,
      async () => {
        made.push(name);
        await call();
        return isMade;
      },
    );
  return { gate, outage, fail, made, enter, withdrawn };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('the gate', () => {
  it('in an outage makes no call before the pause is over', async () => {
    const { enter, made, gate } = gated(400);
    expect(await enter('a')).toEqual({ waitMs: 600 });
    expect(gate.isOpen).toBe(false);
    expect(made).toEqual([]);
  });

  it('lets one call probe after the pause, and the others through when it was answered', async () => {
    const { outage, enter, made } = gated(1000);
    let answer = (): void => {};
    const probe = enter('probe', async () => {
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      outage.answered();
    });
    const others = [enter('a'), enter('b')];
    await settled();
    expect(made).toEqual(['probe']);
    answer();
    expect(await Promise.all([probe, ...others])).toEqual(['go', 'go', 'go']);
    expect(made).toEqual(['probe', 'a', 'b']);
  });

  it('makes no other call when the probe fails', async () => {
    const { enter, made, fail } = gated(1000);
    const probe = enter('1', () => {
      expect(fail(1, 1000)).toBe(2000);
    });
    expect(await Promise.all([probe, enter('2'), enter('3')])).toEqual([
      'go',
      { waitMs: 2000 },
      { waitMs: 2000 },
    ]);
    expect(made).toEqual(['1']);
  });

  it('lets the next one probe when a probe made no call after all, and takes its tokens back', async () => {
    const { outage, enter, made, withdrawn } = gated(1000);
    const ends = [enter('not wanted', () => {}, false), enter('next', () => outage.answered())];
    expect(await Promise.all(ends)).toEqual(['go', 'go']);
    expect(made).toEqual(['not wanted', 'next']);
    expect(withdrawn).toEqual([50]);
  });

  it('lets the next one probe when the store refused the probe', async () => {
    const { outage, enter, made } = gated(1000);
    const refused = enter('refused', async () => {
      throw new Error('the store is away');
    });
    const next = enter('next', () => outage.answered());
    await expect(refused).rejects.toThrow('away');
    expect(await next).toBe('go');
    expect(made).toEqual(['refused', 'next']);
  });

  it('keeps all other calls until a plain one has told whether the rows are the cause', async () => {
    const { outage, enter, made } = gated(5, true);
    const kept = [enter('1'), enter('2')];
    await settled();
    expect(made).toEqual([]);
    outage.decided(true, 5, 0);
    await Promise.all(kept);
    expect(made).toEqual(['1', '2']);
  });

  it('is closed to a caller that may not call any more, also in a pause', () => {
    const { gate } = gated(0);
    expect(gate.ask(() => true)).toBe('closed');
    expect(gate.ask(() => false)).toEqual({ waitMs: 1000 });
  });
});
