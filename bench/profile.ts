import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { promptmill, redis } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';

/**
 * Where the CPU of a run goes: self time of its main thread by folder (`src/<folder>`) and by package.
 *
 *   npm run bench:profile -- [--store redis|embedded] [--rows 30000] [--concurrency 100] [--prompt-kb 0.3]
 */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'redis' },
    rows: { type: 'string', default: '30000' },
    concurrency: { type: 'string', default: '100' },
    'prompt-kb': { type: 'string', default: '0.3' },
  },
});
const SAMPLE_US = 500;

/** What `node --cpu-prof` writes, as far as it is read here. */
interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  /** The node of each sample, and the µs since the one before. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** The lines of each bundle at which a source begins, which esbuild says in comments: `// src/run/engine.ts`. */
const beginnings = new Map<string, readonly { readonly line: number; readonly source: string }[]>();

const rows = Number(values.rows);
const concurrency = Number(values.concurrency);
const folder = mkdtempSync(join(tmpdir(), 'promptmill-profile-'));
const endpoint = await Endpoint.start();
const server = values.store === 'embedded' ? null : await redis();
try {
  const { args, env } = promptmill(server, {
    ...{ url: endpoint.url, folder, concurrency },
    job: writeJob(folder, concurrency),
    input: await writeReviews(join(folder, 'rows.csv'), rows, Number(values['prompt-kb'])),
    output: join(folder, 'out.csv'),
    stateDir: join(folder, 'state'),
  });
  const flags = ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-interval=${SAMPLE_US}`];
  await promisify(execFile)(process.execPath, [...flags, ...args], {
    env: { PATH: process.env['PATH'], ...env },
  });
  const [file = ''] = readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'));
  report(byFolder(JSON.parse(readFileSync(join(folder, file), 'utf8'))));
} finally {
  endpoint.stop();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Self time in µs. */
function byFolder({ nodes, samples, timeDeltas }: Profile): Map<string, number> {
  const folders = new Map<number, string>();
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  // Parents come before their children.
  for (const { id, callFrame } of nodes) {
    folders.set(id, folderOf(callFrame) ?? folders.get(parents.get(id) ?? 0) ?? 'other');
  }
  const times = new Map<string, number>();
  samples.forEach((node, i) => {
    const folder = folders.get(node) ?? 'other';
    times.set(folder, (times.get(folder) ?? 0) + (timeDeltas[i] ?? 0));
  });
  return times;
}

/** Null for what has no file of its own, such as WebAssembly: it belongs to whoever called it. */
function folderOf({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string | null {
  if (/^\((idle|garbage collector|program)\)$/.test(functionName)) return functionName;
  if (url.startsWith('node:')) return 'Node.js';
  const path = url.startsWith('file:') ? sourceOf(fileURLToPath(url), lineNumber) : url;
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];
  const own = /^src\/(?:[^/]+\/)?/.exec(path)?.[0];
  return name ?? own ?? null;
}

/** Where a line of `dist/` comes from; the path itself where it is no bundle. */
function sourceOf(path: string, line: number): string {
  let sources = beginnings.get(path);
  if (sources === undefined) {
    sources = readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((text, i) => {
        const source = /^\/\/ ((?:src|node_modules)\/.*)/.exec(text)?.[1];
        return source === undefined ? [] : [{ line: i, source }];
      });
    beginnings.set(path, sources);
  }
  return sources.findLast((each) => each.line <= line)?.source ?? path;
}

function report(times: Map<string, number>): void {
  const idle = times.get('(idle)') ?? 0;
  times.delete('(idle)');
  const busy = [...times.values()].reduce((a, b) => a + b, 0);
  console.log(
    `${rows} rows, ${values.store}: the main thread was busy for ${(busy / 1e6).toFixed(2)} s and idle for ${(idle / 1e6).toFixed(2)} s`,
  );
  console.table(
    Object.fromEntries(
      [...times]
        .sort((a, b) => b[1] - a[1])
        .filter(([, us]) => us / busy >= 0.002)
        .map(([folder, us]) => [
          folder,
          {
            ms: Math.round(us / 1000),
            '%': Number(((us / busy) * 100).toFixed(1)),
            'µs a row': Number((us / rows).toFixed(1)),
          },
        ]),
    ),
  );
}
