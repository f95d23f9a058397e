import { describe, expect, it } from 'vitest';
import '../faults/figures.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { describeEachStore, type StoreUnderTest } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

/** Row number of a prompt of the test job, `row 17`. */
const rowOf = (prompt: string): number => Number(prompt.split(' ')[1]);

const place = scriptedPlace();
const envOf = ({ env }: StoreUnderTest) => ({ PROMPTMILL_BASE_URL: place.service.url, ...env });

describeEachStore('a run', (store) => {
  const env = () => envOf(store());

  const callsPerRow = (): number[] => {
    const counts = new Map<string, number>();
    for (const { prompt } of place.service.requests) counts.set(prompt, (counts.get(prompt) ?? 0) + 1);
    return [...counts.values()];
  };

  it('answers every row once and writes the records in input order', async () => {
    place.script = ({ prompt }) => ({ json: completionBody({ text: ` answer to ${prompt} ` }) });
    const rows = place.work.write(
      'rows.csv',
      `id,note\n${Array.from({ length: 300 }, (_, i) => `${i + 1},${i % 50 === 7 ? '' : `"a\nb ${i}"`}`).join('\n')}\nragged\n`,
    );
    const job = place.work.job({
      input: { path: rows, require: ['note'] },
      output: { path: 'out/rows.csv' },
    });

    const { code, stderr } = await place.work.call(['run', job], env());

    expect(code, stderr).toBe(1);
    const records = place.work.records('out/rows.csv');
    expect(records.map((record) => record['id'])).toEqual([
      ...Array.from({ length: 300 }, (_, i) => String(i + 1)),
      'ragged',
    ]);
    expect(records[7]).toMatchObject({ status: 'skipped', answer: '', attempts: '' });
    expect(records[8]).toMatchObject({ status: 'completed', answer: 'answer to row 9', note: 'a\nb 8' });
    expect(records[300]).toMatchObject({ status: 'failed', error_code: 'ragged_record', attempts: '0' });
    expect(place.service.requests.length).toBe(294);
    expect(callsPerRow().every((calls) => calls === 1)).toBe(true);
    expect(stderr).toContain('301 rows = 294 completed + 0 filtered + 1 failed + 6 skipped');
    expect(place.work.json('out/rows.summary.json')).toMatchObject({
      rows: { total: 301, completed: 294, filtered: 0, failed: 1, skipped: 6 },
      calls: { sent: 294, retried: 0, rate_limited: 0, repeated: 0 },
      stopped: null,
    });
  });

  it('tries only the rows again that have no answer, and fails a row when its attempts are used up', async () => {
    place.script = ({ prompt, count }) => {
      if (rowOf(prompt) === 3) return { status: 500, text: 'broken' };
      if (rowOf(prompt) === 5 && count === 1) return 'reset';
      return {};
    };
    const job = place.work.job({
      input: { path: place.work.rows(12) },
      output: { path: 'out.jsonl' },
      limits: { attempts: 2, concurrency: 4 },
    });

    const { code, stderr } = await place.work.call(['run', job], env());

    expect(code, stderr).toBe(1);
    const records = place.work.lines('out.jsonl');
    expect(records.map((record) => record.status)).toEqual(
      Array.from({ length: 12 }, (_, i) => (i === 2 ? 'failed' : 'completed')),
    );
    expect(records[2]).toMatchObject({ attempts: 2, error: { code: 'server_error' } });
    expect(records[4]).toMatchObject({ attempts: 2, status: 'completed' });
    expect(place.service.calls('row 3')).toBe(2);
    expect(place.service.calls('row 5')).toBe(2);
    expect(place.service.requests.length).toBe(14);
    expect(place.work.json('out.summary.json')['calls']).toEqual({
      sent: 14,
      retried: 2,
      rate_limited: 0,
      repeated: 1,
    });
  });

  it('stops when nothing can pass, and the same command goes on without calling anything again', async () => {
    let mended = false;
    place.script = ({ prompt }) =>
      rowOf(prompt) > 30 && !mended
        ? { status: 403, json: { error: { code: '403', message: 'blocked' } } }
        : {};
    // Row 31 holds its chunk back, and the rows that are skipped are known without an answer.
    const skipped = [35, 70];
    const lines = Array.from({ length: 80 }, (_, i) => `${i + 1},${skipped.includes(i + 1) ? '' : 'note'}`);
    const job = place.work.job({
      input: { path: place.work.write('rows.csv', `id,note\n${lines.join('\n')}\n`), require: ['note'] },
      output: { path: 'out.csv' },
      limits: { concurrency: 4, chunk_size: 40 },
    });

    const stopped = await place.work.call(['run', job], env());
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('blocked');
    expect(stopped.stderr).toContain('promptmill run job.yaml');
    const kept = '30 rows known, 0 of them written; none of them will be called again';
    expect(stopped.stderr).toContain(kept);
    const refused = place.service.requests.filter(({ prompt }) => rowOf(prompt) > 30).length;
    mended = true;
    const finished = await place.work.call(['run', job], env());

    expect(finished.code, finished.stderr).toBe(0);
    expect(finished.stderr).toContain(kept);
    expect(place.work.records('out.csv').map((record) => Number(record['id']))).toEqual(
      Array.from({ length: 80 }, (_, i) => i + 1),
    );
    expect(place.service.requests.length).toBe(78 + refused);
    for (let row = 1; row <= 30; row++) expect(place.service.calls(`row ${row}`), `row ${row}`).toBe(1);
  });
});

// What holds a run up is not of its store; both stop and go on above.
describeEachStore('a run that is held up', (store) => {
  const env = () => envOf(store());

  it('fault 17: waits as long as a 429 asks, for all rows, without using up attempts', async ({ task }) => {
    const times: number[] = [];
    place.script = ({ prompt, count }) => {
      times.push(Date.now());
      if (rowOf(prompt) === 4 && count <= 2) {
        return {
          status: 429,
          headers: { 'retry-after': '1' },
          json: { error: { code: '429', message: 'slow' } },
        };
      }
      return {};
    };
    const job = place.work.job({
      input: { path: place.work.rows(40) },
      output: { path: 'out.csv' },
      limits: { attempts: 1, concurrency: 2 },
    });

    const { code, stderr } = await place.work.call(['run', job], env());

    expect(code, stderr).toBe(0);
    expect(place.work.records('out.csv').every((record) => record['status'] === 'completed')).toBe(true);
    expect(place.service.calls('row 4')).toBe(3);
    expect(place.service.requests.length).toBe(42);
    const refused = place.service.requests.findIndex(({ prompt }) => rowOf(prompt) === 4);
    const next = times[refused + 2] ?? 0;
    // One call may have been in flight beside the refused one; the next comes after the second asked for.
    expect(next - (times[refused] ?? 0)).toBeGreaterThanOrEqual(1000);
    expect(place.work.json('out.summary.json')['calls']).toMatchObject({
      sent: 42,
      rate_limited: 2,
      retried: 0,
    });
    task.meta.fault = { rows: 40, calls: 42, repeated: 0 };
  });

  it('calls the rows that waited before the rows behind them, so that the output goes on', async () => {
    place.script = ({ count, prompt }) =>
      rowOf(prompt) === 1 && count === 1 ? { status: 429, headers: { 'retry-after': '1' }, json: {} } : {};
    const job = place.work.job({
      input: { path: place.work.rows(60) },
      output: { path: 'out.csv' },
      limits: { concurrency: 1, chunk_size: 1 },
    });

    const { code, stderr } = await place.work.call(['run', job], env());

    expect(code, stderr).toBe(0);
    const again = place.service.requests.findLastIndex(({ prompt }) => rowOf(prompt) === 1);
    // The chunks that were taken with it may come first.
    expect(again).toBeLessThan(10);
  });

  it('fault 45: an interrupted run finishes its calls, exits 143, and is continued by the same command', async ({
    task,
  }) => {
    const { promise: half, resolve: reached } = withResolvers();
    const { promise: signalled, resolve: goOn } = withResolvers();
    place.script = async ({ prompt }) => {
      // Rows of several chunks are called in turns, so row 60 need not be the first of those that wait.
      if (rowOf(prompt) < 60) return {};
      reached();
      await signalled;
      return {};
    };
    const job = place.work.job({
      input: { path: place.work.rows(200) },
      output: { path: 'out.csv' },
      limits: { concurrency: 3 },
    });

    const running = place.work.start(['run', job], env());
    await half;
    running.process.stderr?.on('data', (text: string) => text.includes('stopping') && goOn());
    running.process.kill('SIGTERM');
    const interrupted = await running.ended;
    expect(interrupted.code, interrupted.stderr).toBe(143);
    const before = place.service.requests.length;
    expect(before).toBeLessThan(200);
    const finished = await place.work.call(['run', job], env());

    expect(finished.code, finished.stderr).toBe(0);
    expect(place.work.records('out.csv').length).toBe(200);
    expect(place.service.requests.length).toBe(200);
    task.meta.fault = { rows: 200, calls: 200 };
  });

  it('goes on with other chunks while the last row of each chunk it holds is slow', async () => {
    const slow: (() => void)[] = [];
    let others = 0;
    place.script = async ({ prompt }) => {
      // Three chunks of six are what the worker takes at once. Their last rows hang until all others are answered.
      if ([6, 12, 18].includes(rowOf(prompt))) await new Promise<void>((resolve) => slow.push(resolve));
      else if (++others === 57) for (const release of slow) release();
      return {};
    };
    const job = place.work.job({
      input: { path: place.work.rows(60) },
      output: { path: 'out.csv' },
      limits: { concurrency: 6, chunk_size: 6 },
    });

    const { code, stderr } = await place.work.call(['run', job], env());

    expect(code, stderr).toBe(0);
    expect(place.service.requests.length).toBe(60);
  });
});

it('a run that npx has started goes on with npx', async () => {
  const { work, service } = place;
  const job = work.job({ input: { path: work.rows(2) }, output: { path: 'out.csv' } });
  const env = { PROMPTMILL_BASE_URL: service.url, npm_command: 'exec', npm_lifecycle_script: 'promptmill' };
  const { stderr } = await work.call(['run', job, '--limit', '1'], env);
  expect(stderr).toContain('1 row is left. Go on with:\n  npx promptmill run job.yaml\n');
});

describe('a run to standard output', () => {
  it('fault 51: ends as by a signal when its reader has seen enough', async () => {
    const { work, service } = place;
    const { promise: gone, resolve: goes } = withResolvers();
    place.script = async ({ prompt }) => {
      // The reader goes after the first records, with most of the others to come, however fast the run is.
      if (rowOf(prompt) > 100) await gone;
      return {};
    };
    const job = work.job({ input: { path: work.rows(3_000) } });
    const running = work.start(['run', job, '--output', '-', '--quiet'], {
      PROMPTMILL_BASE_URL: service.url,
    });
    running.process.stdout?.once('data', () => {
      running.process.stdout?.destroy();
      goes();
    });
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(141);
    expect(stderr).toBe('');
    expect(service.requests.length).toBeLessThan(3_000);
  });

  it('takes rows from standard input and writes only records', async () => {
    const { work, service } = place;
    const job = work.job({ input: { path: 'rows.csv' } });
    const args = ['run', job, '--input', '-', '--format', 'csv', '--output', '-', '--quiet'];
    const { code, stdout, stderr } = await work.run(
      args,
      { PROMPTMILL_BASE_URL: service.url },
      'id,note\n1,a\n2,b\n',
    );
    expect(code, stderr).toBe(0);
    expect(stdout.trim().split('\n').length).toBe(3);
    expect(stdout).toMatch(/^id,note,status,/);
    expect(stderr).toBe('');
  });
});
