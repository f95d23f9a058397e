import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startEmulator } from '../src/emulator/server.js';

/**
 * Rows that one minute answers under a quota of 60 requests a minute, with 1 and with 20 prompts in a request.
 *
 *   npm run bench:packing
 */
const SECONDS = 60;
const folder = mkdtempSync(join(tmpdir(), 'promptmill-packing-'));
try {
  const rows = Array.from({ length: 5_000 }, (_, i) => `${i},"Item ${i} came late, but it works."`);
  writeFileSync(join(folder, 'rows.csv'), `id,review\n${rows.join('\n')}\n`);
  const [one, twenty] = [await rowsAMinute(1), await rowsAMinute(20)];
  console.table([{ 'rows with 1 prompt': one, 'with 20 prompts': twenty, ratio: twenty / one }]);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function rowsAMinute(prompts: number): Promise<number> {
  const emulator = await startEmulator({ quota: { requestsPerMinute: 60 } });
  const job = join(folder, `job-${prompts}.yaml`);
  writeFileSync(
    job,
    JSON.stringify({
      service: { deployment: 'lm-35-turbo-instruct' },
      input: { path: join(folder, 'rows.csv') },
      prompt: 'Review: {{ review }}\nSentiment, positive or negative:',
      parameters: { max_tokens: 3, temperature: 0 },
      output: { path: join(folder, `out-${prompts}.csv`) },
      limits: { concurrency: 2, prompts_per_request: prompts },
    }),
  );
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, '../dist/cli.js'), 'run', job, '--quiet', '--json'],
    {
      env: {
        PATH: process.env['PATH'],
        PROMPTMILL_BASE_URL: emulator.url,
        PROMPTMILL_API_KEY: emulator.keys[0],
        PROMPTMILL_STATE_DIR: join(folder, 'state'),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  while (emulator.stats().requests === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
  child.kill('SIGTERM');
  const summary = JSON.parse(await text(child.stdout));
  await emulator.close();
  return summary.rows.completed;
}
