import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

const ROWS = 60;

/** Several processes one after the other. */
const TIMEOUT = 300_000;

describe('a run on embedded that was killed, and then', () => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: () => void = () => {};

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(() => {
      onCall();
      return {};
    });
  });
  afterEach(async () => {
    onCall = () => {};
    await service.close();
    work.remove();
  });

  const run = (job: string) => work.call(['run', job], { PROMPTMILL_BASE_URL: service.url });
  const job = (change: object = {}): string =>
    work.job({
      input: { path: 'rows.csv' },
      output: { path: 'out.csv' },
      limits: { concurrency: 2, chunk_size: 5 },
      ...change,
    });

  /** Kills a run in its midst. What is committed at that moment is of no matter. */
  async function killed(): Promise<void> {
    work.rows(ROWS);
    const running = work.start(['run', job()], { PROMPTMILL_BASE_URL: service.url });
    onCall = () => {
      if (service.requests.length >= 30) running.process.kill('SIGKILL');
    };
    expect((await running.ended).code).toBe(null);
    onCall = () => {};
  }

  async function refused(): Promise<string> {
    const before = service.requests.length;
    const manifest = work.read('out.csv.run.json');
    const { code, stderr } = await run('job.yaml');
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('out.csv.run.json');
    expect(stderr).toContain('--restart');
    expect(service.requests.length).toBe(before);
    expect(work.read('out.csv.run.json')).toBe(manifest);
    return stderr;
  }

  async function finishes(): Promise<void> {
    const { code, stderr } = await run('job.yaml');
    expect(code, stderr).toBe(0);
    expect(work.records('out.csv').map(({ id }) => Number(id))).toEqual(
      Array.from({ length: ROWS }, (_, i) => i + 1),
    );
  }

  it(
    'fault 14: its input edited, is refused with both fingerprints, and goes on once it is put back',
    async ({ task }) => {
      await killed();
      const original = work.read('rows.csv');
      const seen: string[] = [];
      for (const edited of [original.replace('note 50', 'note 5O'), `${original}61,new\n`]) {
        work.write('rows.csv', edited);
        const [, before = '', now = ''] =
          /input \(SHA-256 ([0-9a-f]{12}) then, SHA-256 ([0-9a-f]{12}) now\)/.exec(await refused()) ?? [];
        seen.push(before, now);
      }
      expect(seen[0]).toMatch(/./);
      expect(seen[2]).toBe(seen[0]);
      expect(new Set(seen).size).toBe(3);
      work.write('rows.csv', original);
      await finishes();
      const { calls } = JSON.parse(work.read('out.summary.json'));
      task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: calls.repeated };
    },
    TIMEOUT,
  );

  it(
    'fault 15: its job edited, is refused with what changed, and goes on once it is put back',
    async ({ task }) => {
      await killed();
      const edits: readonly (readonly [change: object, named: string])[] = [
        [{ prompt: 'another {{ id }}' }, 'prompt ("row {{ id }}" then, "another {{ id }}" now)'],
        [{ parameters: { temperature: 1 } }, 'parameters.temperature (none then, 1 now)'],
        [
          { service: { deployment: 'one-of-our-own' } },
          'service.deployment ("lm-35-turbo-instruct" then, "one-of-our-own" now)',
        ],
      ];
      for (const [change, named] of edits) {
        job(change);
        expect(await refused()).toContain(named);
      }
      // What the records do not depend on may change.
      job({ limits: { concurrency: 3, chunk_size: 7, attempts: 2 } });
      await finishes();
      const { calls } = JSON.parse(work.read('out.summary.json'));
      task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: calls.repeated };
    },
    TIMEOUT,
  );
});
