import { execFileSync } from 'node:child_process';
import { constants, readdirSync, renameSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type Running, Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';

const ROWS = 200;

/** When a run was last heard of. */
const lastBeat = (): number => {
  const folder = work.path('.promptmill/board/run');
  // A name with a dot before it is a draft, which is soon renamed.
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  return Math.max(...names.map((name) => statSync(join(folder, name)).mtimeMs));
};

/** Opens a named pipe to write into it once a run reads it; never waits for a run that has ended. */
const openPipe = (path: string, { ended }: Running): Promise<FileHandle> =>
  Promise.race([
    vi.waitFor(() => open(path, constants.O_WRONLY | constants.O_NONBLOCK), { timeout: 100_000 }),
    ended.then(({ stderr }) => {
      throw new Error(`the run has ended and did not read ${path}: ${stderr}`);
    }),
  ]);

let work: Workplace;
let service: ScriptedService;
beforeEach(async () => {
  work = new Workplace();
  service = await startScriptedService(() => ({ json: completionBody({ text: ' yes' }) }));
});
afterEach(async () => {
  await service.close();
  work.remove();
});

it('fault 45: SIGINT while a run that has all its rows compares them with the last one leaves only that to the next', async () => {
  const env = { PROMPTMILL_BASE_URL: service.url };
  const job = work.job({
    input: { path: work.rows(ROWS), id: 'id' },
    answer: { labels: ['yes', 'no'] },
    output: { path: 'out-{{run}}.csv' },
    drift: { alarm: 0.5 },
  });
  const first = await work.call(['run', job], env);
  expect(first.code, first.stderr).toBe(0);
  const [output = ''] = readdirSync(work.folder).filter((name) => /^out-[\d-]+\w+\.csv$/.test(name));
  // What the last run wrote is read as slowly as the test writes it.
  renameSync(work.path(output), work.path('kept'));
  execFileSync('mkfifo', [work.path(output)]);

  const running = work.start(['run', job], env);
  let pipe: FileHandle | null = null;
  try {
    pipe = await openPipe(work.path(output), running);
    await pipe.write(work.read('kept').split('\n').slice(0, 10).join('\n'));
    // The run says that it lives, so nobody takes it for lost, however long that lasts.
    for (let beat = 0; beat < 3; beat++) {
      const before = lastBeat();
      await expect.poll(lastBeat).toBeGreaterThan(before);
    }
  } finally {
    running.process.kill('SIGINT');
    await pipe?.close();
  }
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(130);

  renameSync(work.path('kept'), work.path(output));
  const finished = await work.call(['run', job, '--json'], env);
  expect(finished.code, finished.stderr).toBe(0);
  expect(JSON.parse(finished.stdout)).toMatchObject({
    rows: { total: ROWS, completed: ROWS },
    calls: { sent: ROWS, repeated: 0 },
    drift: { rows: ROWS, changed: 0 },
  });
  expect(service.requests.length).toBe(2 * ROWS);
});
