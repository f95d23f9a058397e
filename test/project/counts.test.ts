import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

/**
 * What a run asks of the machine, in counts that hardly depend on how fast it is. The service answers as many calls at
 * once as are made at once, and not before they are all there: so the rows of such a wave can share their round trips,
 * and whoever adds one for each row adds ROWS, which is more than the limits leave room for.
 */
const ROWS = 400;
const CONCURRENCY = 10;
const CHUNK = 50;
const COUNTER = join(import.meta.dirname, '../../bench/counter.js');

/** Round trips to the store: what goes by the clock (the collector's looks, heartbeats) is allowed for each second. */
const TRIPS = { perRun: 120, perWave: 6, perSecond: 20 };
const FSYNCS = { perRun: 20, perChunk: 4 };
/** Files of code that a run loads, its report included. */
const MODULES = 150;
/** Of them before its first call: commands that share a module have a small file for it, so each further one may add one. */
const AT_START = 100;
/** Files that a program loads with the library, before it runs anything: half a second of a slow machine. */
const IN_PROGRAM = 40;

/** Loaded before the command: writes down each file of JavaScript as soon as it is loaded. */
const WATCH = `
  const { appendFileSync } = require('node:fs');
  const { Session } = require('node:inspector');
  const session = new Session();
  session.connect();
  session.on('Debugger.scriptParsed', ({ params: { url } }) => {
    if (url.startsWith('file:')) appendFileSync(process.env.LOADED, url + '\\n');
  });
  session.post('Debugger.enable');
`;

/** Packages that a run over a CSV in UTF-8, with no schema, no budget and no terminal, has no use for. */
const NOT_NEEDED = [
  'gpt-tokenizer',
  'ajv',
  'jsonrepair',
  'hdr-histogram-js',
  'iconv-lite',
  'pino-pretty',
  'fastify',
  'helmet',
  'prom-client',
  'vega',
  'vega-lite',
];

/** The packages in a file: its own, or those that the bundle has put into it, each part under a comment with its path. */
function packagesIn(url: string): string[] {
  const paths = [url, ...(readFileSync(new URL(url), 'utf8').match(/^\/\/ node_modules\/.*/gm) ?? [])];
  return paths.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
}

const work = new Workplace();
afterEach(() => work.remove());
const loaded = (): string[] => work.read('loaded').trimEnd().split('\n');
const watched = (): string => `--require ${work.path(work.write('watch.cjs', WATCH))}`;

it('to say its version takes a handful of files', async () => {
  const env = { LOADED: work.path('loaded'), NODE_OPTIONS: watched() };
  const { code, stdout } = await work.run(['--version'], env);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(loaded().length).toBeLessThanOrEqual(4);
});

it('a program that imports the library loads a few files, and nothing that only a run needs', () => {
  const library = join(import.meta.dirname, '../../dist/index.js');
  const program = work.path(work.write('program.mjs', `import ${JSON.stringify(library)};`));
  const env = { ...process.env, LOADED: work.path('loaded'), NODE_OPTIONS: watched() };
  execFileSync(process.execPath, [program], { env });
  const files = loaded();
  expect(files.length).toBeLessThanOrEqual(IN_PROGRAM);
  const packages = new Set(files.flatMap(packagesIn));
  expect(packages).toContain('zod');
  const others = ['bullmq', 'cron-parser', 'ioredis', 'luxon', 'pino', 'undici'];
  expect([...NOT_NEEDED, ...others].filter((name) => packages.has(name))).toEqual([]);
});

describeEachStore('the counts of a run', (store) => {
  let service: ScriptedService;
  afterEach(() => service.close());

  it('stay within their limits, and before its first call it loads no package that it has no use for', async () => {
    let before: string[] = [];
    const calledAt: number[] = [];
    const wave: (() => void)[] = [];
    service = await startScriptedService(async () => {
      if (before.length === 0) before = loaded();
      calledAt.push(performance.now());
      await new Promise<void>((resolve) => {
        wave.push(resolve);
        if (wave.length === CONCURRENCY) for (const answer of wave.splice(0)) answer();
      });
      return {};
    });
    const job = work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: CHUNK },
    });
    const { kind, target, stateDir } = store();
    const ended = await work.run(['run', job, '--quiet'], {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: target,
      PROMPTMILL_STATE_DIR: stateDir,
      NODE_OPTIONS: `${watched()} --import ${pathToFileURL(COUNTER)}`,
      LOADED: work.path('loaded'),
      BENCH_COUNTS: work.path('counts.json'),
    });
    expect(ended).toMatchObject({ code: 0 });
    expect(calledAt).toHaveLength(ROWS);

    const { writes, changes, fsyncs, modules } = JSON.parse(readFileSync(work.path('counts.json'), 'utf8'));
    const trips = kind === 'embedded' ? changes : writes[new URL(target).port];
    const seconds = ((calledAt.at(-1) ?? 0) - (calledAt[0] ?? 0)) / 1000;
    const limits = {
      trips: Math.round(TRIPS.perRun + TRIPS.perWave * (ROWS / CONCURRENCY) + TRIPS.perSecond * seconds),
      fsyncs: FSYNCS.perRun + FSYNCS.perChunk * (ROWS / CHUNK),
      modules: MODULES,
    };
    console.log(`${kind}, ${ROWS} rows:`, { trips, fsyncs, modules }, 'limits:', limits);
    // With fewer, the counter would not see the reservation of each wave, or not the commits.
    expect(trips).toBeGreaterThanOrEqual(ROWS / CONCURRENCY);
    expect(fsyncs).toBeGreaterThanOrEqual(ROWS / CHUNK);
    expect(trips).toBeLessThanOrEqual(limits.trips);
    expect(fsyncs).toBeLessThanOrEqual(limits.fsyncs);
    expect(modules).toBeLessThanOrEqual(limits.modules);

    expect(before.length).toBeLessThanOrEqual(AT_START);
    const packages = new Set(before.flatMap(packagesIn));
    expect(packages).toContain('undici');
    expect(NOT_NEEDED.filter((name) => packages.has(name))).toEqual([]);
  });
});
