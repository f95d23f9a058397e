import { describe, expect, it } from 'vitest';
import { emptyTally } from '../../src/account/tally.js';
import { type RunEvent, run } from '../../src/index.js';
import type { Quota } from '../../src/pace/shared-pace.js';
import { SpeedGauge } from '../../src/run/speed.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { withResolvers } from '../support/with-resolvers.js';

const NOTHING_WRITTEN = emptyTally();
const none = { rows: 0, sent: 0 };

/** A gauge of a run, and what it shows after so many seconds and calls. */
function gauge({ total = 1_000, promptsPerRequest = 1, kept = 0 } = {}) {
  const measured = new SpeedGauge(total, { promptsPerRequest }, kept, 0);
  return (
    seconds: number,
    look: { called: number; toCall: number },
    window = none,
    quota: Quota | null = null,
    tally = NOTHING_WRITTEN,
  ) => {
    measured.looked(look);
    return measured.at(seconds * 1000, window, tally, quota);
  };
}

const written = (total: number) => ({ ...NOTHING_WRITTEN, rows: { ...NOTHING_WRITTEN.rows, total } });

describe('fault 100: speed and time left', () => {
  it('are of the calls alone: 910 rows that are skipped are no speed, and take no time', () => {
    // 8 of the 90 calls in 8 seconds.
    const window = { rows: 82, sent: 82 };
    const speed = gauge()(8, { called: 8, toCall: 82 }, window, null, written(918));
    expect(speed).toEqual({ called: 8, perSecond: 1, secondsLeft: 82 });
  });

  it('take it that of the rows behind the window as many need a call as of those in it', () => {
    const window = { rows: 100, sent: 25 };
    const speed = gauge()(10, { called: 10, toCall: 20 }, window);
    expect(speed.secondsLeft).toBe(20 + 900 / 4);
  });

  it('are not told before the first call has ended, nor when only rows without a call are left', () => {
    expect(gauge()(0, { called: 0, toCall: 90 })).toMatchObject({ perSecond: null, secondsLeft: null });
    expect(gauge()(5, { called: 0, toCall: 90 })).toMatchObject({ perSecond: 0, secondsLeft: null });
    const last = gauge()(5, { called: 5, toCall: 0 }, { rows: 1_000, sent: 0 });
    expect(last).toMatchObject({ perSecond: 1, secondsLeft: null });
  });

  it('leave out what the store kept of the execution before', () => {
    const speed = gauge({ kept: 500 })(10, { called: 510, toCall: 490 }, { rows: 490, sent: 490 });
    expect(speed).toMatchObject({ called: 10, perSecond: 1 });
  });

  it('are never better than the quota of calls or of tokens allows', () => {
    const quota = { perMinute: 600, isFound: false, tokensPerMinute: null };
    const look = { called: 200, toCall: 800 };
    const window = { rows: 1_000, sent: 800 };
    expect(gauge()(10, look, window).secondsLeft).toBe(40);
    expect(gauge()(10, look, window, quota).secondsLeft).toBe(80);
    expect(gauge({ promptsPerRequest: 20 })(10, look, window, quota).secondsLeft).toBe(40);
    const usage = { prompt_tokens: 9_000, completion_tokens: 1_000, total_tokens: 10_000 };
    const tokens = { perMinute: null, isFound: false, tokensPerMinute: 24_000 };
    const tally = { ...written(200), usage };
    // 50 tokens a row: 8 rows a second.
    expect(gauge()(10, look, { rows: 800, sent: 800 }, tokens, tally).secondsLeft).toBe(100);
  });
});

describe('a run', () => {
  const place = scriptedPlace();

  it('fault 100: of whose 1,000 rows 91 % are skipped tells the time that its calls take', async () => {
    const { work, service } = place;
    const { promise: held, resolve: release } = withResolvers();
    place.script = async ({ total }) => {
      if (total > 8) await held;
      return {};
    };
    const lines = Array.from({ length: 1_000 }, (_, i) => `${i},${i < 910 ? '' : `row ${i}`}`);
    work.write('rows.csv', `id,text\n${lines.join('\n')}\n`);
    const job = work.job({
      input: { path: work.path('rows.csv'), require: ['text'] },
      prompt: '{{ text }}',
      output: { path: work.path('out.csv') },
      limits: { concurrency: 4 },
    });
    const state = work.path('state');
    let seen: Extract<RunEvent, { type: 'pulse' }> | undefined;
    await run(work.path(job), {
      output: true,
      env: {
        PROMPTMILL_BASE_URL: service.url,
        PROMPTMILL_API_KEY: 'a-key-for-tests-only',
        PROMPTMILL_QUEUE: 'embedded',
        PROMPTMILL_STATE_DIR: state,
      },
      onEvent: (event) => {
        if (event.type !== 'pulse' || event.speed.called < 8 || seen !== undefined) return;
        seen = event;
        release();
      },
    });
    const { perSecond, secondsLeft } = seen?.speed ?? {};
    expect(seen?.known).toBe(918);
    expect((perSecond ?? 0) * (secondsLeft ?? 0)).toBeCloseTo(82);
  });
});
