import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { haveRedis } from '../test/support/servers.js';
import { promptmill, redis } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';
import { metered } from './meter.js';
import { median } from './results.js';

/**
 * What it takes that workers read the answers, because rows whose answers do not fit are asked again, and that the operation
 * is chat: CPU of the process for a row, and rows a second, beside a job that has neither, in turn. Every answer of the
 * endpoint fits.
 *
 *   npm run bench:answers -- [--rows 30000] [--rounds 5]
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '30000' },
    rounds: { type: 'string', default: '5' },
  },
});
const ROWS = Number(values.rows);
const CONCURRENCY = 100;

const folder = mkdtempSync(join(tmpdir(), 'promptmill-answers-'));
const endpoint = await Endpoint.start();
const server = haveRedis() ? await redis() : null;
try {
  const input = await writeReviews(join(folder, 'rows.csv'), ROWS, 0.3);
  const jobs = {
    'read by the collector': writeJob(folder, CONCURRENCY),
    'by the worker too': writeJob(folder, CONCURRENCY, { ask_again: 2 }),
    'the chat operation': writeJob(folder, CONCURRENCY, undefined, 'chat'),
  };
  const taken = new Map<string, { cpu: number; rate: number }[]>(Object.keys(jobs).map((name) => [name, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, job] of Object.entries(jobs)) {
      await endpoint.begin(0);
      const [output, stateDir] = [join(folder, 'out.csv'), join(folder, 'state')];
      const task = { url: endpoint.url, folder, input, output, job, stateDir, concurrency: CONCURRENCY };
      const { cpu_us, seconds } = await metered(promptmill(server, task));
      taken.get(name)?.push({ cpu: cpu_us / ROWS, rate: ROWS / seconds });
      console.log(`${name.padEnd(22)}  ${(cpu_us / ROWS).toFixed(0)} µs a row  ${seconds.toFixed(1)} s`);
    }
  }
  const [[, base = []] = [], ...others] = taken;
  const percents = (ratio: number): string => `${((ratio - 1) * 100).toFixed(1)} %`;
  for (const [name, runs] of others) {
    const ofBase = (figure: 'cpu' | 'rate'): number =>
      median(runs.map((run, round) => run[figure] / (base[round]?.[figure] ?? Number.NaN)));
    console.log(
      `${name}: CPU ${percents(ofBase('cpu'))}, rows a second ${percents(ofBase('rate'))}, medians within a round`,
    );
  }
} finally {
  endpoint.stop();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}
