import { existsSync, readdirSync, rmSync } from 'node:fs';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runScheduled } from '../../src/commands/serve.js';
import { Halt } from '../../src/core/halt.js';
import { resultOf } from '../../src/ops/schedule/serve-state.js';
import { MemoryPlace } from '../support/memory-place.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';

const ROWS = 10;

/** What all rows of a night are answered; null where they fail. */
type Answers = string | null | ((id: number) => string);

describe('the nights of a scheduled job', () => {
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
    place.work.rows(ROWS);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    place.work.remove();
  });

  const job = (more: object, name = 'night'): string => {
    const base = {
      name,
      input: { path: place.work.path('rows.csv'), id: 'id' },
      output: { path: place.work.path('out/r.csv') },
      answer: { labels: ['yes', 'no'], require: { valid: 0.9 } },
      drift: { alarm: 0.2 },
      schedule: { cron: '0 2 * * *' },
    };
    return place.work.path(place.work.job({ ...base, ...more }, `${name}.yaml`));
  };
  const answerWith = (answer: Answers): void => {
    place.script = ({ prompt }) => {
      if (answer === null) return { status: 400, json: { error: { code: 'bad', message: 'bad' } } };
      const text = typeof answer === 'string' ? answer : answer(Number(prompt.replace('row ', '')));
      return { json: completionBody({ text }) };
    };
  };
  /** @returns what `serve` logs of it */
  const night = async (path: string, answer: Answers) => {
    answerWith(answer);
    const { summary, code, said } = await place.run(path, { overwrite: true, scheduled: true });
    return { code, said, result: summary === null ? said : resultOf(summary) };
  };
  /** The same by `serve` itself, with a server, and with the store, hooks and report of a command. */
  const served = async (path: string, answer: string) => {
    answerWith(answer);
    const service = await startScriptedService(place.script);
    vi.stubEnv('PROMPTMILL_BASE_URL', service.url);
    vi.stubEnv('PROMPTMILL_API_KEY', 'a-key-for-tests-only');
    vi.stubEnv('PROMPTMILL_STATE_DIR', place.work.path('state'));
    const leave = new AbortController().signal;
    const night = { job: 'night', path, halt: new Halt(), leave, onBegun: async () => {} };
    const end = await runScheduled(night, {}, pino({ level: 'silent' }));
    await service.close();
    return { ...end, calls: service.calls() };
  };
  const out = () => readdirSync(place.work.path('out')).sort();

  it('fault 105: an output below answer.require takes another name, each time, and the good one stays', async () => {
    const told = place.work.path('told');
    const hook =
      'echo "$PROMPTMILL_EXIT_CODE $PROMPTMILL_OUTPUT $PROMPTMILL_GOOD_OUTPUT" >> "$0"; cat > "$0.json"';
    const path = job({ report: true, on_finish: { command: ['sh', '-c', hook, told] } });
    await served(path, 'yes');
    const good = ['r.csv', 'r.report.html', 'r.summary.json'].map((name) => place.work.read(`out/${name}`));
    for (let bad = 0; bad < 2; bad++) {
      const { state, result } = await served(path, 'who knows');
      expect(state).toBe('rejected');
      expect(result).toContain('below_require');
      expect(result).toMatch(/drifted: 100.0 % of 10 rows/);
    }
    expect(out()).toEqual([
      ...['r.csv', 'r.rejected.csv', 'r.rejected.report.html', 'r.rejected.summary.json'],
      ...['r.report.html', 'r.summary.json'],
    ]);
    const stands = ['r.csv', 'r.report.html', 'r.summary.json'].map((name) => place.work.read(`out/${name}`));
    expect(stands).toEqual(good);
    const [r, rejected] = [place.work.path('out/r.csv'), place.work.path('out/r.rejected.csv')];
    expect(place.work.json('out/r.rejected.summary.json')).toMatchObject({
      output: rejected,
      rejected: { good_output: r },
    });
    expect(place.work.json('told.json')).toMatchObject({ output: rejected, rejected: { good_output: r } });
    expect(place.work.read('told').trimEnd().split('\n')).toEqual([
      `0 ${r} `,
      ...[`4 ${rejected} ${r}`, `4 ${rejected} ${r}`],
    ]);
    // The next good one takes the place of the first.
    const next = await served(path, 'yes');
    expect(next.state).toBe('finished');
    expect(next.result).not.toMatch(/below|drifted/);
    expect(place.work.json('out/r.summary.json')).toMatchObject({ drift: { changed: 0 } });
  });

  it('fault 105: what raised the alarm of drift has its output, and is not what the next night is measured by', async () => {
    const path = job({});
    await night(path, 'yes');
    const first = place.work.read('out/r.csv');
    for (let bad = 0; bad < 2; bad++) expect((await night(path, 'no')).result).toMatch(/drifted: 100/);
    expect(place.work.records('out/r.csv').map(({ answer }) => answer)).toEqual(Array(ROWS).fill('no'));
    expect(place.work.read('out/r.measure.csv')).toBe(first);
    expect((await night(path, 'yes')).result).not.toContain('drifted');
  });

  it('fault 105: with a date or a run in the path the good outputs are found among the others', async () => {
    const path = job({ output: { path: place.work.path('out/{{run}}.csv.gz') } });
    await night(path, 'yes');
    const [good] = out();
    await night(path, 'who knows');
    for (let bad = 0; bad < 2; bad++) expect((await night(path, 'no')).result).toMatch(/drifted: 100/);
    expect(out().filter((name) => name.endsWith('.rejected.csv.gz')).length).toBe(1);
    const summaries = out().filter((name) => name.endsWith('summary.json'));
    const against = summaries.flatMap((name) => place.work.json(`out/${name}`)['drift'] ?? []);
    expect(against.length).toBe(3);
    for (const drift of against) expect(drift).toMatchObject({ output: place.work.path(`out/${good}`) });
  });

  it('fault 108: an output of another job is not replaced, unless a person says so', async () => {
    const none = { drift: undefined };
    const [one, two] = [job(none, 'one'), job(none, 'two')];
    await night(one, 'yes');
    const calls = place.machine.calls();
    const before = place.work.read('out/r.csv');
    const second = await night(two, 'no');
    expect(second.code).toBe(2);
    expect(second.result).toContain('is the output of the job one, and the job two has the same output.path');
    expect(place.machine.calls()).toBe(calls);
    expect(place.work.read('out/r.csv')).toBe(before);
    const byHand = await place.run(two, { overwrite: true });
    expect(byHand.code, byHand.said).toBe(0);
    expect((await night(two, 'yes')).code).toBe(0);
    expect((await night(one, 'yes')).code).toBe(2);
    expect(existsSync(place.work.path('out/r.csv.run.json'))).toBe(false);
  });

  it('fault 108: a job that got another name goes on when what the message names is moved away', async () => {
    const [old, now] = [job({}, 'old'), job({}, 'now')];
    await night(old, 'yes');
    await night(old, 'who knows');
    for (const name of ['out/r.csv', 'out/r.rejected.csv']) {
      const { result } = await night(now, 'yes');
      expect(result).toContain(`${place.work.path(name)} is the output of the job old`);
      rmSync(place.work.path(name));
    }
    expect((await night(now, 'yes')).code).toBe(0);
  });

  it('fault 105: a night in which all rows failed does not replace the good one, nor is drift measured by it', async () => {
    const path = job({});
    await night(path, 'yes');
    const good = place.work.read('out/r.csv');
    expect((await night(path, null)).result).toContain('10 of 10 rows failed, and no row has an answer.');
    expect(place.work.read('out/r.csv')).toBe(good);
    expect(out()).toContain('r.rejected.csv');
    expect((await night(path, 'no')).result).toMatch(/drifted: 100/);
  });

  it("fault 108: a file that no summary is beside may be anybody's, and is not replaced", async () => {
    const path = job({});
    await served(path, 'yes');
    rmSync(place.work.path('out/r.summary.json'));
    expect(await served(path, 'no')).toEqual({
      run: null,
      state: 'not started',
      result: expect.stringContaining("r.csv exists: it may be anybody's"),
      calls: 0,
    });
    expect(place.work.records('out/r.csv').map(({ answer }) => answer)).toEqual(Array(ROWS).fill('yes'));
  });

  it('fault 105: an output.path that ends in .rejected or .measure is a name like any other', async () => {
    const output = { path: place.work.path('out/r.rejected.csv') };
    const path = job({ output });
    await night(path, 'yes');
    const good = place.work.read('out/r.rejected.csv');
    expect((await night(path, 'who knows')).result).toContain('r.rejected.rejected.csv');
    expect(place.work.read('out/r.rejected.csv')).toBe(good);
    const measured = job({ output: { path: place.work.path('out/r.measure.csv') } }, 'measured');
    await night(measured, 'yes');
    for (let bad = 0; bad < 2; bad++) expect((await night(measured, 'no')).result).toMatch(/drifted: 100/);
  });

  it('fault 105: with input.only_new no answer of a rejected night is carried into the next', async () => {
    const path = job({ input: { path: place.work.path('rows.csv'), id: 'id', only_new: true } });
    await night(path, 'yes');
    place.work.rows(2 * ROWS);
    expect((await night(path, 'who knows')).result).toContain('below_require');
    const calls = place.machine.calls();
    expect((await night(path, 'yes')).result).not.toContain('below_require');
    expect(place.machine.calls() - calls).toBe(ROWS);
    expect(place.work.records('out/r.csv').map(({ answer }) => answer)).toEqual(Array(2 * ROWS).fill('yes'));
  });

  it.each([
    [{ id: 'id' }, { drift: { changed: 0 } }],
    [{}, {}],
  ])('fault 91: a last output that was sorted raises no alarm of drift, with input %j', async (by, told) => {
    const path = job({ input: { path: place.work.path('rows.csv'), ...by } });
    const odd = (id: number) => (id % 2 === 1 ? 'yes' : 'no');
    await night(path, odd);
    const [header = '', ...rows] = place.work.read('out/r.csv').trimEnd().split('\n');
    const sorted = rows.toSorted((a, b) => Number(b.includes(',yes,')) - Number(a.includes(',yes,')));
    place.work.write('out/r.csv', `${[header, ...sorted].join('\n')}\n`);
    const { result, said } = await night(path, odd);
    expect(result).not.toContain('drifted');
    expect(place.work.json('out/r.summary.json')).toMatchObject(told);
    expect(said).toMatch(/warning: .*the same rows are in another order/);
  });
});
