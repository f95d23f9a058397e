import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Ended, Workplace } from '../support/promptmill.js';
import { Serve } from '../support/serve.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeOn, describeMissing } from '../support/stores.js';
import { Trial, trialOn } from '../support/trial.js';
import { unknownAfter } from '../support/unknown.js';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

/** Promptmill in a folder, under a limit of the shell. */
function limited(
  limit: string,
  folder: string,
  args: readonly string[],
  env: Record<string, string>,
  onText: (stderr: string) => void = () => {},
): Promise<Ended> {
  const child = spawn('sh', ['-c', `${limit} && exec "$0" "$@"`, process.execPath, CLI, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], PROMPTMILL_API_KEY: 'a-key-for-tests-only', ...env },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => {
    stdout += text;
  });
  child.stderr.on('data', (text) => {
    stderr += text;
    onText(stderr);
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stdout, stderr })));
}

/** What a user reads of a limit, and never of a defect. */
function named(stderr: string, remedy: string): void {
  expect(stderr).toContain(remedy);
  expect(stderr).not.toMatch(/defect|^\s+at /m);
}

describe('a limit of the machine', () => {
  const work = new Workplace();
  afterAll(() => work.remove());
  const job = work.job({ input: { path: work.rows(20) }, output: { path: 'out.csv' } });

  /** So few files that a command cannot be loaded, and enough for `--version`: with fewer Node itself does not start. */
  let fewFiles = 16;
  beforeAll(async () => {
    while ((await limited(`ulimit -n ${fewFiles}`, work.folder, ['--version'], {})).code !== 0) fewFiles++;
    fewFiles += 2;
  });

  it.each([
    ['run', job, '--emulate'],
    ['check', job],
    ['status'],
    ['work', '--queue', 'redis://127.0.0.1:1'],
    ['serve', job, '--no-dashboard'],
  ])(
    'fault 84: %s names the limit of open files when it cannot start, and does not end as if it had finished',
    async (...args) => {
      const { code, stderr } = await limited(`ulimit -n ${fewFiles}`, work.folder, args, {});
      expect(code, stderr).toBe(2);
      named(stderr, 'ulimit -n');
    },
  );

  it('fault 84: run names the limit of address space when there is too little for a connection', async () => {
    const { code, stderr } = await limited('ulimit -v 1200000', work.folder, ['run', job, '--emulate'], {});
    expect(code, stderr).toBe(3);
    named(stderr, 'ulimit -v');
  });
});

describeOn('embedded', 'a run that meets a limit of the machine', (store) => {
  it('fault 84: stops when it may open no more connections, and goes on with a higher limit', async (context) => {
    const { target, stateDir } = store();
    const trial = await Trial.begin({ queue: target, stateDir, rows: 600, concurrency: 300 });
    onTestFinished(() => trial.end());
    // Nothing is answered until the run has met the limit, so that it needs ever more connections.
    trial.hold();
    const { code, stderr } = await limited(
      'ulimit -n 200',
      trial.work.folder,
      ['run', 'job.yaml'],
      trial.env,
      (said) => {
        if (/^stopping\b/m.test(said)) trial.release();
      },
    );
    // Also where it had no time to say that it stops.
    trial.release();
    expect(code, stderr).toBe(3);
    expect(stderr).toMatch(/too_many_open_files/);
    named(stderr, 'ulimit -n');
    expect(stderr).toContain('Resume with:\n  promptmill run job.yaml');
    await trial.whole(trial.call(), { repeats: trial.unknown }, context);
  });
});

/** Node runs it before Promptmill: a defect that strikes at a signal. */
const DEFECTS = {
  'an exception': "setImmediate(() => { throw new Error('struck') })",
  'a rejection': "Promise.reject(new Error('struck'))",
};
function struckBy(work: Workplace, defect: string): Record<string, string> {
  const path = work.write('struck.mjs', `process.on('SIGUSR2', () => { ${defect} });\n`);
  return { NODE_OPTIONS: `--import=${work.path(path)}` };
}

describeOn('embedded', 'a defect in the middle', (store) => {
  it.for(Object.entries(DEFECTS))(
    'fault 84: %s that nobody caught stops a run with the command that goes on',
    async ([, defect], context) => {
      const { target, stateDir } = store();
      const trial = await Trial.begin({ queue: target, stateDir, rows: 300 });
      onTestFinished(() => trial.end());
      const running = trial.runWith(struckBy(trial.work, defect));
      await running.until(trial.called(50));
      running.process.kill('SIGUSR2');
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(3);
      expect(stderr).toMatch(
        /this is a defect, please report it\nError: struck\n[\s\S]*Resume with:\n {2}promptmill run job\.yaml\n$/,
      );
      await trial.whole(trial.call(), { repeats: trial.unknown }, context);
    },
  );
});

if (!haveRedis()) {
  describeMissing('a defect of a process beside the run on redis', 'redis-server or valkey-server');
} else {
  describe('a defect of a process beside the run on redis', () => {
    const rows = { rows: 300 };
    const start = () => startRedis();

    it('fault 84: promptmill work ends with 3, and its rows are called by others', (context) =>
      trialOn(start, rows, async (trial) => {
        const working = trial.work.start(['work'], {
          ...trial.env,
          ...struckBy(trial.work, DEFECTS['a rejection']),
        });
        const running = trial.run('--no-work');
        await running.until(trial.called(50));
        working.process.kill('SIGUSR2');
        const { code, stderr } = await working.ended;
        expect(code, stderr).toBe(3);
        expect(stderr).toMatch(/please report it\nError: struck/);
        // Its entries would come back when their locks have run out; a run of its own does not wait for that.
        running.process.kill('SIGTERM');
        await running.ended;
        // The worker has a limit of its own, of 20.
        await trial.whole(trial.call(), { repeats: unknownAfter(20) }, context);
      }));

    it('fault 84: promptmill serve ends with 3, and the next one completes its run', (context) =>
      trialOn(start, rows, async (trial) => {
        const job = trial.work.read('job.yaml');
        trial.work.write('job.yaml', `${job}schedule: { cron: "* * * * * *" }\n`);
        const env = { ...trial.env, ...struckBy(trial.work, DEFECTS['an exception']) };
        const serve = new Serve(trial.work.start(['serve', 'job.yaml', '--no-dashboard'], env));
        await Promise.race([trial.called(50), serve.logs(/^never$/)]);
        serve.running.process.kill('SIGUSR2');
        const { code, stderr } = await serve.running.ended;
        expect(code, stderr).toBe(3);
        expect(stderr).toMatch(/please report it\nError: struck/);
        await trial.whole(trial.call(), { repeats: trial.unknown }, context);
      }));
  });
}
