import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { type Ended, type Running, Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';
import { unknownAfter } from '../support/unknown.js';

const CLI = join(import.meta.dirname, '../../dist/cli.js');
/** More by hand: `ROUNDS=100 npx vitest run --config vitest.faults.config.ts test/faults/one-writer.test.ts`. */
const ROUNDS = Number(process.env['ROUNDS'] ?? 6);
const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const ROWS = 60;
const CONCURRENCY = 8;

/** A process that is started as a user starts it: anywhere, with any state directory, in a namespace of its own. */
interface Start {
  /** Working directory, beside the output or below it. */
  readonly folder: string;
  readonly stateDir: string;
  readonly namespace?: boolean;
}

describe('two runs to one output on embedded', () => {
  let work: Workplace;
  let service: ScriptedService;
  let held: Promise<void> | null = null;
  let release: () => void = () => {};
  let onCall: () => void = () => {};
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    work = new Workplace();
    work.rows(ROWS);
    service = await startScriptedService(async ({ prompt }) => {
      onCall();
      await held;
      return { json: completionBody({ text: ` re ${prompt}` }) };
    });
  });
  afterEach(async () => {
    release();
    onCall = () => {};
    for (const child of children.splice(0)) child.kill('SIGKILL');
    await service.close();
    work.remove();
  });

  const hold = (): void => {
    held = new Promise((resolve) => {
      release = () => {
        held = null;
        resolve();
      };
    });
  };

  /** Resolves when the service has taken so many calls. @throws Error with what the run said, when it ends before */
  const called = (calls: number, { ended }: Pick<Running, 'ended'>): Promise<void> =>
    Promise.race([
      new Promise<void>((resolve) => {
        onCall = () => {
          if (service.requests.length >= calls) resolve();
        };
        onCall();
      }),
      ended.then(({ code, stderr }) => {
        throw new Error(`ended too early with ${code}:\n${stderr}`);
      }),
    ]);

  function start({ folder, stateDir, namespace = false }: Start): Running {
    mkdirSync(work.path(folder), { recursive: true });
    const up = folder === '.' ? '.' : '..';
    const job = work.job({
      input: { path: 'rows.csv' },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: 5 },
    });
    const args = [
      CLI,
      'run',
      join(up, job),
      '--input',
      join(up, 'rows.csv'),
      '--output',
      join(up, 'out.csv'),
    ];
    const [command, ...rest] = namespace
      ? ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', process.execPath, ...args]
      : [process.execPath, ...args];
    const child = spawn(command ?? '', rest, {
      cwd: work.path(folder),
      env: {
        PATH: process.env['PATH'],
        PROMPTMILL_API_KEY: 'a-key-for-tests-only',
        PROMPTMILL_BASE_URL: service.url,
        PROMPTMILL_STATE_DIR: work.path(stateDir),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    children.push(child);
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const ended = new Promise<Ended>((resolve) => {
      child.on('close', (code) => resolve({ code, stdout: '', stderr }));
    });
    return { process: child, ended };
  }

  const beside = (): string[] =>
    readdirSync(work.folder)
      .filter((name) => /^\.?out/.test(name))
      .sort();

  const ANSWERS = Array.from({ length: ROWS }, (_, i) => `${i + 1} completed re row ${i + 1}`);

  /** The output is that of one undisturbed run, and each row was called as often as it may be. */
  function expectWhole(repeats = 0): void {
    const records = work.records('out.csv');
    expect(records.map(({ id, status, answer }) => `${id} ${status} ${answer}`)).toEqual(ANSWERS);
    expect(service.requests.length).toBeLessThanOrEqual(ROWS + repeats);
    expect(beside()).toEqual(['out.csv', 'out.summary.json']);
  }

  it(
    'fault 60: one runs and one is refused, whenever and wherever they begin',
    async ({ task }) => {
      console.log(`${ROUNDS} rounds of two runs that begin together, SEED=${SEED}`);
      const anywhere = fc.constantFrom<readonly Start[]>(
        [
          { folder: '.', stateDir: 'state-1' },
          { folder: '.', stateDir: 'state-2' },
        ],
        [
          { folder: 'here', stateDir: 'here/state' },
          { folder: 'there', stateDir: 'there/state' },
        ],
        [
          { folder: '.', stateDir: 'state-1' },
          { folder: 'here', stateDir: 'here/state' },
        ],
        [
          { folder: 'here', stateDir: 'state-1' },
          { folder: 'there', stateDir: 'state-1' },
        ],
      );
      const rounds = fc.sample(fc.tuple(anywhere, fc.integer({ min: 0, max: 600 })), {
        numRuns: ROUNDS,
        seed: SEED,
      });
      let refused = 0;
      for (const [starts, delay] of rounds) {
        const before = service.requests.length;
        const running: Running[] = [];
        for (const each of starts) {
          running.push(start(each));
          await new Promise((resolve) => setTimeout(resolve, delay));
        }
        const ends = await Promise.all(running.map(({ ended }) => ended));
        const words = ends.map(({ stderr }) => stderr).join('\n---\n');
        expect(ends.map(({ code }) => code).toSorted(), words).toEqual([0, 2]);
        expect(ends.find(({ code }) => code === 2)?.stderr).toMatch(
          /^promptmill: .*out\.csv (is held by process \d+ on .*\(writing .*out\.csv\)|exists: this job has finished)/m,
        );
        expect(service.requests.length - before, words).toBe(ROWS);
        refused++;
        const records = work.records('out.csv');
        expect(records.map(({ id, status, answer }) => `${id} ${status} ${answer}`)).toEqual(ANSWERS);
        expect(beside()).toEqual(['out.csv', 'out.summary.json']);
        for (const name of beside()) rmSync(work.path(name));
      }
      expect(refused).toBe(ROUNDS);
      task.meta.fault = { rows: ROWS * ROUNDS, calls: service.requests.length };
    },
    60_000 + ROUNDS * 60_000,
  );

  const canUnshare =
    spawnSync('unshare', ['--pid', '--fork', '--mount-proc', process.execPath, '-e', '']).status === 0;
  if (!canUnshare) describeMissing('processes whose numbers mean nothing to each other', 'unshare, as root');

  it.runIf(canUnshare)(
    'fault 60: processes whose numbers mean nothing to each other are told apart, with one state directory and one host name',
    async () => {
      hold();
      const first = start({ folder: '.', stateDir: 'state', namespace: true });
      await called(8, first);
      for (const second of [
        { folder: '.', stateDir: 'state', namespace: true },
        { folder: '.', stateDir: 'state-2' },
      ]) {
        const { code, stderr } = await start(second).ended;
        expect(code, stderr).toBe(2);
        expect(stderr).toMatch(/out\.csv is held by process 1 on .*\(writing out\.csv\)/);
      }
      release();
      const { code, stderr } = await first.ended;
      expect(code, stderr).toBe(0);
      expectWhole();
    },
  );

  it.runIf(canUnshare)(
    'fault 60: the lock of a killed container is taken over when it has been silent, and nothing is lost',
    async () => {
      const killed = start({ folder: '.', stateDir: 'state', namespace: true });
      await called(20, killed);
      hold();
      killed.process.kill('SIGKILL');
      await killed.ended;
      release();
      expect(beside()).toContain('.out.lock');
      const next = await start({ folder: '.', stateDir: 'state' }).ended;
      expect(next.code, next.stderr).toBe(0);
      expect(next.stderr).toMatch(
        /out\.csv was last held by process 1 on .* in another container.*silent for 30 s/,
      );
      expectWhole(unknownAfter(CONCURRENCY));
    },
  );

  it('fault 60: a run that is killed in sight is continued at once', async () => {
    const killed = start({ folder: '.', stateDir: 'state' });
    await called(20, killed);
    killed.process.kill('SIGKILL');
    await killed.ended;
    expect(beside()).toContain('.out.lock');
    const next = await start({ folder: '.', stateDir: 'state' }).ended;
    expect(next.code, next.stderr).toBe(0);
    expect(next.stderr).not.toContain('silent');
    expectWhole(unknownAfter(CONCURRENCY));
  });

  it('fault 67: a folder that nobody can make ends the run', async () => {
    const job = work.job({ input: { path: 'rows.csv' } });
    const { code, stderr } = await work.call(['run', job, '--output', '/proc/x/out.csv'], {
      PROMPTMILL_BASE_URL: service.url,
    });
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('cannot write /proc/x/out.csv: ENOENT');
    const state = await work.call(['run', job, '--output', 'out.csv'], {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: 'redis://127.0.0.1:1',
      PROMPTMILL_STATE_DIR: '/proc/x/state',
    });
    expect(state.code, state.stderr).toBe(2);
    expect(state.stderr).toContain('cannot write in the state directory /proc/x/state');
    expect(service.requests.length).toBe(0);
  });

  it('fault 68: nobody else can look into the state directory, a copy of standard input, or the database', async () => {
    const job = work.job({
      input: { path: '-', dedupe: true },
      parameters: { temperature: 0 },
      output: { path: 'out.csv' },
    });
    mkdirSync(work.path('.promptmill'), { mode: 0o755 });
    hold();
    const running = work.start(
      ['run', job, '--format', 'csv'],
      { PROMPTMILL_BASE_URL: service.url },
      work.read('rows.csv'),
    );
    await called(8, running);
    // What is in a folder that is closed has its own mode; the database for example asks for none.
    const open = readdirSync(work.path('.promptmill'))
      .map((name) => ({ name, mode: statSync(work.path(join('.promptmill', name))).mode & 0o077 }))
      .filter(({ mode }) => mode !== 0);
    release();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(open).toEqual([]);
    expect(statSync(work.path('.promptmill')).mode & 0o777).toBe(0o700);
  });
});

// Whatever the store: the files are written by the run itself.
describe('what others do to the files of a run on embedded', () => {
  let trial: Trial;
  beforeEach(async () => {
    trial = await Trial.begin({ queue: 'embedded', rows: 200 });
  });
  afterEach(() => trial.end());

  it('fault 63: the part file is deleted while it goes on; it stops, and the same command completes it', async (context) => {
    const first = trial.run();
    await first.until(trial.called(100));
    rmSync(trial.work.path('out.csv.part'));
    const { code, stderr } = await first.ended;
    expect(code, stderr).toBe(3);
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain('out.csv.part was deleted while the run went on');
    expect(existsSync(trial.work.path('out.csv'))).toBe(false);
    await trial.whole(trial.call(), { repeats: 0 }, context);
  });

  it('fault 62: an empty output that is to be replaced stays empty until every row is written', async (context) => {
    trial.work.write('out.csv', '');
    const run = trial.run('--overwrite');
    await run.until(trial.called(trial.rows));
    expect(trial.work.read('out.csv')).toBe('');
    await trial.whole(run, { repeats: 0 }, context);
  });

  it("fault 64: a stranger's file at the name of the output stays as it is, and the run goes on when it is gone", async (context) => {
    const first = trial.run();
    await first.until(trial.called(100));
    trial.work.write('out.csv', 'mine');
    first.process.kill('SIGTERM');
    expect((await first.ended).code).toBe(143);
    const refused = await trial.call().ended;
    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toContain('Move it away, or replace it with --overwrite.');
    expect(trial.work.read('out.csv')).toBe('mine');
    rmSync(trial.work.path('out.csv'));
    await trial.whole(trial.call(), { repeats: 0 }, context);
  });
});
