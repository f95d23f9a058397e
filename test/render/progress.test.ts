import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { startProgress } from '../../src/render/progress.js';
import { barLine, type ProgressView, plainLine } from '../../src/render/progress-lines.js';
import { type RunFigures, runLines } from '../../src/render/run-screen.js';
import { Screen } from '../../src/render/screen.js';
import { cells } from '../../src/render/terminal-text.js';

const view: ProgressView = {
  total: 100_000,
  done: 12_345,
  inFlight: 50,
  failed: 3,
  waiting: null,
  rate: 850,
  secondsLeft: 103.1,
};

describe('the line for logs', () => {
  test('tells everything', () => {
    expect(plainLine(view)).toBe(
      '12,345 / 100,000 rows known  12 %  850/s  about 1 min 44 s left  50 in flight  3 failed',
    );
  });

  test('tells of invalid answers where there are any, here and on a terminal', () => {
    expect(plainLine({ ...view, invalid: 7 })).toMatch(/ {2}50 in flight {2}3 failed {2}7 invalid$/);
    expect(barLine({ ...view, failed: 0, invalid: 7 }, 120)).toMatch(/ {2}50 in flight {2}7 invalid$/);
  });

  test('promises no time while the rate is unknown or nothing moves', () => {
    const unknown = { ...view, secondsLeft: null };
    expect(plainLine({ ...unknown, rate: null })).toBe(
      '12,345 / 100,000 rows known  12 %  50 in flight  3 failed',
    );
    expect(plainLine({ ...unknown, rate: 0 })).toBe(
      '12,345 / 100,000 rows known  12 %  0.0/s  50 in flight  3 failed',
    );
  });

  test('says what is waited for instead of a rate', () => {
    expect(plainLine({ ...view, waiting: 'waiting for the service until 10:42:05' })).toBe(
      '12,345 / 100,000 rows known  12 %  waiting for the service until 10:42:05  50 in flight  3 failed',
    );
  });

  test('speaks of minutes, hours and days where seconds are too small', () => {
    expect(plainLine({ ...view, rate: 0.05, secondsLeft: 87_655 / 0.05 })).toContain(
      '3.0/min  about 20 d 7 h left',
    );
    expect(plainLine({ ...view, rate: 10, secondsLeft: 8_765.5 })).toContain('10/s  about 2 h 26 min left');
  });

  test('names what is counted, and no calls where there are none', () => {
    const counting = { ...view, unit: 'rows counted', inFlight: null };
    expect(plainLine(counting)).toBe(
      '12,345 / 100,000 rows counted  12 %  850/s  about 1 min 44 s left  3 failed',
    );
    expect(plainLine({ ...counting, failed: 0 })).toMatch(/s left$/);
    expect(barLine({ ...counting, failed: 0 }, 80)).toMatch(
      /12 % {2}12,345 \/ 100,000 rows counted {2}850\/s {2}1 min 44 s left$/,
    );
  });

  test('reaches 100 % with the last row and not before', () => {
    expect(plainLine({ ...view, done: 99_999 })).toContain('  99 %  ');
    expect(plainLine({ ...view, done: 100_000 })).toBe(
      '100,000 / 100,000 rows known  100 %  850/s  50 in flight  3 failed',
    );
    expect(plainLine({ ...view, done: 0, total: 0 })).toContain('100 %');
  });
});

describe('the line on a terminal', () => {
  test('leaves out what matters least where it is narrow', () => {
    expect([120, 80, 70, 50, 40, 30, 10, 5, 2].map((width) => barLine(view, width))).toEqual([
      '███░░░░░░░░░░░░░░░░░░░░░░░░░░░  12 %  12,345 / 100,000  850/s  1 min 44 s left  50 in flight  3 failed',
      '░░░░░░░░  12 %  12,345 / 100,000  850/s  1 min 44 s left  50 in flight  3 failed',
      '█░░░░░░░░░░░  12 %  12,345 / 100,000  850/s  1 min 44 s left  3 failed',
      '12 %  12,345 / 100,000  1 min 44 s left  3 failed',
      '12 %  12,345 / 100,000  1 min 44 s left',
      '12 %  12,345 / 100,000',
      '12 %',
      '12 %',
      '',
    ]);
  });

  test('shows before all why it stands still', () => {
    const waiting = { ...view, waiting: 'waiting for the service until 10:42:05' };
    expect(barLine(waiting, 85)).toBe(
      '█░░░░░░░░░░  12 %  12,345 / 100,000  waiting for the service until 10:42:05  3 failed',
    );
    expect(barLine(waiting, 64)).toBe('12 %  12,345 / 100,000  waiting for the service until 10:42:05');
    expect(barLine(waiting, 30)).toBe('12 %  waiting for the service…');
  });

  test('is never wider than asked for', () => {
    for (let width = 0; width <= 130; width++) {
      expect(cells(barLine(view, width))).toBeLessThanOrEqual(width);
      expect(cells(barLine({ ...view, waiting: '好'.repeat(99) }, Math.max(6, width)))).toBeLessThanOrEqual(
        Math.max(6, width),
      );
    }
  });
});

/** Keeps what is written. */
class Sink extends Writable {
  text = '';
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** A terminal, as far as lines are drawn on one: it obeys the codes and shows what a person would see. */
class Terminal extends Sink {
  readonly isTTY = true;
  columns = 80;
  rows = 24;

  get lines(): string[] {
    const lines = [''];
    let row = 0;
    let column = 0;
    for (const [token] of this.text.matchAll(/\p{Cc}(?:\[\d*[A-Za-z])?|\P{Cc}+/gu)) {
      const line = lines[row] ?? '';
      const up = token.startsWith('\u001b[') && token.endsWith('A') ? Number(token.slice(2, -1)) : 0;
      if (token === '\n') {
        row++;
        column = 0;
        if (row === lines.length) lines.push('');
      } else if (token === '\r') column = 0;
      else if (up > 0) row = Math.max(0, row - up);
      else if (token === '\u001b[K') lines[row] = line.slice(0, column);
      else if (token === '\u001b[J') lines.splice(row, lines.length, line.slice(0, column));
      else if (/^\p{Cc}/u.test(token)) throw new Error(`unknown escape code ${JSON.stringify(token)}`);
      else {
        lines[row] = line.slice(0, column).padEnd(column) + token + line.slice(column + token.length);
        column += token.length;
      }
    }
    return lines;
  }
}

describe('progress', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test('without a terminal there is a line every five seconds', () => {
    const stream = new Sink();
    const progress = startProgress({ stream, isTTY: false, total: 10_000, done: 1000, quiet: false });
    progress.update({ done: 1500, inFlight: 50, failed: 0 });
    vi.advanceTimersByTime(4999);
    expect(stream.text).toBe('');
    vi.advanceTimersByTime(1);
    progress.update({ done: 2000, inFlight: 49, failed: 1 });
    vi.advanceTimersByTime(5000);
    progress.stop();
    expect(stream.text).toBe(`\
1,500 / 10,000 rows known  15 %  100/s  about 1 min 25 s left  50 in flight  0 failed
2,000 / 10,000 rows known  20 %  100/s  about 1 min 20 s left  49 in flight  1 failed
`);
  });

  test('what is no run names what it counts, and no calls', () => {
    const stream = new Terminal();
    const progress = startProgress({
      stream,
      isTTY: true,
      total: 400,
      done: 0,
      quiet: false,
      unit: 'MB read',
    });
    expect(stream.lines).toEqual([`${'░'.repeat(30)}  0 %  0 / 400 MB read`]);
    progress.update({ done: 40, failed: 0 });
    vi.advanceTimersByTime(10_000);
    expect(stream.lines).toEqual([`███${'░'.repeat(27)}  10 %  40 / 400 MB read  4.0/s  1 min 30 s left`]);
    progress.stop();
  });

  test('a run that stands still says so once, and then once a minute', () => {
    const stream = new Sink();
    const progress = startProgress({ stream, isTTY: false, total: 10, done: 0, quiet: false, everyMs: 1000 });
    progress.update({ done: 1, inFlight: 0, failed: 0, waiting: 'waiting for the store' });
    vi.advanceTimersByTime(61_000);
    progress.stop();
    const line = '1 / 10 rows known  10 %  waiting for the store  0 in flight  0 failed\n';
    expect(stream.text).toBe(line + line);
  });

  test('on a terminal there is one line, drawn again and again, and notes stand above it', () => {
    const stream = new Terminal();
    const progress = startProgress({ stream, isTTY: true, total: 10_000, done: 0, quiet: false });
    expect(stream.lines).toEqual([`${'░'.repeat(30)}  0 %  0 / 10,000  0 in flight`]);
    progress.update({ done: 1000, inFlight: 50, failed: 0 });
    vi.advanceTimersByTime(10_000);
    expect(stream.lines).toEqual([
      `█${'░'.repeat(18)}  10 %  1,000 / 10,000  100/s  1 min 30 s left  50 in flight`,
    ]);
    progress.note('the service is back \u001b[2J');
    expect(stream.lines).toEqual([
      'the service is back \\u{1b}[2J',
      `█${'░'.repeat(18)}  10 %  1,000 / 10,000  100/s  1 min 30 s left  50 in flight`,
    ]);
    progress.stop();
    expect(stream.lines).toEqual(['the service is back \\u{1b}[2J', '']);
  });

  test('on a terminal a long note breaks between words', () => {
    const stream = new Terminal();
    const progress = startProgress({ stream, isTTY: true, total: 100, done: 0, quiet: false });
    progress.note(
      'stopping: finishing 50 calls in flight; Ctrl-C again stops at once, and 50 calls may then be paid for twice',
    );
    progress.stop();
    expect(stream.lines).toEqual([
      'stopping: finishing 50 calls in flight; Ctrl-C again stops at once, and 50 calls',
      'may then be paid for twice',
      '',
    ]);
  });

  test.each([true, false])('after stop() nothing is printed, on a terminal: %s', (isTTY) => {
    const stream = new Terminal();
    const progress = startProgress({ stream, isTTY, total: 100, done: 0, quiet: false, everyMs: 100 });
    vi.advanceTimersByTime(1000);
    progress.stop();
    const before = stream.text;
    progress.update({ done: 50, inFlight: 1, failed: 0 });
    progress.note('late');
    progress.stop();
    vi.advanceTimersByTime(10_000);
    expect(stream.text).toBe(before);
  });

  test('quiet is quiet', () => {
    const stream = new Terminal();
    const progress = startProgress({ stream, isTTY: true, total: 100, done: 0, quiet: true });
    progress.update({ done: 50, inFlight: 1, failed: 0 });
    progress.note('a note');
    vi.advanceTimersByTime(10_000);
    progress.stop();
    expect(stream.text).toBe('');
  });
});

/** Without colours. */
const unpainted = (_style: unknown, text: string): string => text;

const figures: RunFigures = {
  seconds: 15,
  tokens: { prompt_tokens: 400_000, completion_tokens: 20_000 },
  prices: { prompt: 0.0015, completion: 0.002 },
  budget: { tokens: null, cost: 2.5 },
  callsPerMinute: 588,
  rateLimited: 3,
  quota: { perMinute: 600, isFound: false },
  tally: {
    rows: { total: 12_345, completed: 12_300, filtered: 20, failed: 3, skipped: 22 },
    answers: { positive: 6_100, negative: 4_000, neutral: 2_193 },
    abstained: 12,
  },
  namesAnswers: true,
};

describe('the screen of a run', () => {
  const shown = (width: number, more: Partial<ProgressView> = {}, of: Partial<RunFigures> = {}) =>
    runLines({ ...view, invalid: 7, ...more }, { ...figures, ...of }, width, unpainted);

  test('tells how far it is, how fast, what it costs, and what the answers are', () => {
    expect(shown(79)).toEqual([
      'known    ██░░░░░░░░░░░░░░░░░░░  12 %  12,345 / 100,000  1 min 44 s left',
      'speed    850 rows/s  15 s so far',
      'calls    ████████████████████░  588 of 600 a minute  50 in flight  3 × 429',
      'cost     █████░░░░░░░░░░░░░░░░  25 %  0.64 of 2.50  420,000 tokens',
      'answers  positive 6,100 ███████  negative 4,000 ████░░░  neutral 2,193 ██░░░░░',
      'written  12,281 answered  3 failed  7 invalid  12 abstained  20 filtered',
    ]);
  });

  test('leaves out what matters least where it is narrow', () => {
    expect(shown(39)).toEqual([
      'known    12 %  12,345 / 100,000',
      'speed    850 rows/s  15 s so far',
      'calls    588 of 600 a minute',
      'cost     0.64 of 2.50  420,000 tokens',
      'answers  positive 6,100 ███████████  +2',
      'written  12,281 answered  3 failed',
    ]);
  });

  test('has as many lines whatever happens, none of them wider than asked for', () => {
    const hostile = { ['好'.repeat(40)]: 5, '\u001b[2J': 3, ...figures.tally.answers, other: 1, more: 2 };
    for (let width = 1; width <= 130; width++) {
      for (const more of [{}, { waiting: '\n好'.repeat(99) }, { rate: null, done: 0 }]) {
        for (const answers of [figures.tally.answers, hostile, {}]) {
          const lines = shown(width, more, { tally: { ...figures.tally, answers } });
          expect(lines.length).toBe(6);
          expect(Math.max(...lines.map(cells))).toBeLessThanOrEqual(width);
          expect(lines.join('')).not.toMatch(/\p{Cc}/u);
        }
      }
    }
  });

  test('shows why it stands still in place of the speed', () => {
    const waiting = 'waiting since 10:42:05: Service Unavailable (HTTP 503); next call at 10:42:25';
    expect(shown(79, { waiting })[1]).toBe(
      'waits    since 10:42:05: Service Unavailable (HTTP 503); next call at 10:42:25',
    );
    expect(shown(79, { waiting })[0]).not.toContain('left');
    expect(shown(59, { waiting })[1]).toBe('waits    since 10:42:05: Service Un…; next call at 10:42:25');
  });

  test('says what is not known, and has no line for answers that are free text', () => {
    const unknown = { quota: null, prices: null, budget: null, namesAnswers: false };
    expect(shown(79, {}, unknown).slice(2)).toEqual([
      'calls    588 a minute  50 in flight  3 × 429',
      'tokens   420,000',
      'written  12,281 answered  3 failed  7 invalid  12 abstained  20 filtered',
    ]);
    expect(shown(79, {}, { quota: { perMinute: 431.6, isFound: true } })[2]).toContain(
      '588 of about 432 a minute',
    );
  });

  test('holds the spending against the limit that is nearer', () => {
    expect(shown(79, {}, { budget: { tokens: 500_000, cost: 2.5 } })[3]).toBe(
      'cost     █████████████████░░░░  84 %  0.64 of 2.50  420,000 of 500,000 tokens',
    );
  });
});

describe('lines that stay in their place', () => {
  const three = (width: number): string[] => ['one', 'two', 'three'].map((line) => line.slice(0, width));

  test('are drawn in one write, each time', () => {
    const stream = new Terminal();
    const write = vi.spyOn(stream, '_write');
    const screen = new Screen(stream, three);
    screen.update();
    screen.update();
    expect(write).toHaveBeenCalledTimes(3);
    expect(stream.lines).toEqual(['one', 'two', 'three']);
    screen.end();
    expect(stream.lines).toEqual(['']);
  });

  test('what others write to the terminal stands above them', () => {
    const stream = new Terminal();
    const screen = new Screen(stream, three);
    const done = vi.fn();
    stream.write(Buffer.from('a line of the log\n'), done);
    expect(done).toHaveBeenCalledOnce();
    screen.update();
    expect(stream.lines).toEqual(['a line of the log', 'one', 'two', 'three']);
    screen.end();
    stream.write('after it');
    expect(stream.lines).toEqual(['a line of the log', 'after it']);
  });

  test('where the terminal became narrower, what was drawn takes more lines, and is drawn anew at once', () => {
    const stream = new Terminal();
    const screen = new Screen(stream, (width) => ['x'.repeat(width), 'y'.repeat(width), 'z']);
    stream.text = '';
    stream.columns = 40;
    stream.emit('resize');
    // Two lines of 79 are now four, above the one with the cursor.
    expect(stream.text.slice(0, 5)).toBe('\r\u001b[4A');
    expect(stream.text).toContain('x'.repeat(39));
    expect(stream.text).not.toContain('x'.repeat(40));
    screen.end();
  });

  test('are no more than the terminal is high', () => {
    const stream = new Terminal();
    stream.rows = 3;
    const screen = new Screen(stream, three);
    expect(stream.lines).toEqual(['one', 'two']);
    screen.end();
  });

  test('leave no listener behind', () => {
    const counts = () => [process.listenerCount('SIGTSTP'), process.listenerCount('exit')];
    const before = counts();
    const stream = new Terminal();
    new Screen(stream, three).end();
    expect(counts()).toEqual(before);
    expect(stream.listenerCount('resize')).toBe(0);
  });
});

test.each([true, false])(
  'a progress that nobody stops keeps no process alive, on a terminal: %s',
  (isTTY) => {
    const spies = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'setInterval')];
    const progress = startProgress({ stream: new Terminal(), isTTY, total: 100, done: 0, quiet: false });
    progress.note('a note');
    const timers = spies.flatMap((spy) => spy.mock.results.map(({ value }) => value));
    const live = timers.filter((timer) => !timer._destroyed && timer.hasRef());
    expect(timers.length).toBeGreaterThan(0);
    expect(live).toEqual([]);
    progress.stop();
    vi.restoreAllMocks();
  },
);
