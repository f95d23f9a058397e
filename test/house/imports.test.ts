import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

/**
 * Imports go one way, from the words and the pure parts over the edges to the commands. Type imports count:
 * a type that points upwards is a design that does.
 */
const src = join(import.meta.dirname, '../../src');

/** The rooms from the bottom up; a room imports from itself and from those below. */
const ROOMS = [
  'ground floor',
  'source',
  'service',
  'store',
  'answer',
  'prompt',
  'output',
  'account',
  'render',
  'budget',
  'reuse',
  'pace',
  'config',
  'queue',
  'fleet',
  'worker',
  'resume',
  'compare',
  'run',
  'check',
  'init',
  'score',
  'retry',
  'emulator',
  'schedule',
  'web',
  'library',
  'commands',
  'entry points',
];

/** Files of `src/` that may import everything; the others of that folder are the ground floor. */
const ENTRY_POINTS = ['cli.ts', 'index.ts'];

/** Packages that only some rooms may import. */
const RESERVED: readonly (readonly [packages: RegExp, allowed: RegExp])[] = [
  [/^bullmq$/, /^(store|queue|worker|schedule)\//],
  [/^(ioredis|pg)$/, /^store\//],
  [/^(fastify|@fastify\/.*|@bull-board\/.*|prom-client)$/, /^web\//],
  [/^undici$/, /^service\//],
];

/** Who may import `render/`: all others count, and leave it to these how that is shown. */
const SHOWING =
  /^(render|commands|web)\/|^\w+\/\w+-document\.ts$|^(check\/check-job|init\/job-text|resume\/report-file|run\/events)\.ts$/;

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the house', () => {
  it('has a place for every room', () => {
    expect([...new Set(files.map(roomOf))].sort()).toEqual([...ROOMS].sort());
  });

  it('is described room by room, in the same order, in CONTRIBUTING.md', () => {
    const text = readFileSync(join(src, '../CONTRIBUTING.md'), 'utf8');
    const described = [...text.matchAll(/^\| `([a-z]+)\/`/gm)].map((match) => match[1]);
    expect(described).toEqual(ROOMS.slice(1, -1));
  });

  it('imports only from rooms below', () => {
    const floor = (file: string): number => ROOMS.indexOf(roomOf(file));
    const upwards = edges().filter(([from, to]) => floor(to) > floor(from));
    expect(upwards.map(([from, to]) => `${from} → ${to}`)).toEqual([]);
  });

  it('has no circular imports', () => {
    expect(cycles()).toEqual([]);
  });

  it('keeps database clients, BullMQ and HTTP in the folders that own them', () => {
    const strays = files.flatMap((file) =>
      (imports.get(file) ?? []).flatMap((name) =>
        RESERVED.filter(([packages, allowed]) => packages.test(name) && !allowed.test(file)).map(
          () => `${file} imports ${name}`,
        ),
      ),
    );
    expect(strays).toEqual([]);
  });

  it('shows only in what makes a document, a page or a screen', () => {
    const strays = edges().filter(([from, to]) => to.startsWith('render/') && !SHOWING.test(from));
    expect(strays).toEqual([]);
  });

  it('imports the emulator only from the library and commands', () => {
    const strays = edges().filter(
      ([from, to]) => to.startsWith('emulator/') && !/^((emulator|library|commands)\/|index)/.test(from),
    );
    expect(strays).toEqual([]);
  });

  it('ends the process only in cli.ts', () => {
    const strays = files.filter(
      (file) => file !== 'cli.ts' && /process\.exit\(/.test(readFileSync(join(src, file), 'utf8')),
    );
    expect(strays).toEqual([]);
  });
});

function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), 'utf8');
  const found = text.matchAll(/(?:\bfrom\s+|\bimport\s+|\bimport\(\s*)'([^']+)'/g);
  return [...found].flatMap((match) => match[1] ?? []);
}

function edges(): [from: string, to: string][] {
  return files.flatMap((file) =>
    (imports.get(file) ?? [])
      .filter((name) => name.startsWith('.'))
      .map((name): [string, string] => [
        file,
        relative(src, join(src, dirname(file), name.replace(/\.js$/, '.ts'))),
      ]),
  );
}

function roomOf(file: string): string {
  if (ENTRY_POINTS.includes(file)) return 'entry points';
  return file.includes('/') ? (file.split('/')[0] ?? file) : 'ground floor';
}

function cycles(): string[] {
  const graph = new Map<string, string[]>();
  for (const [from, to] of edges()) graph.set(from, [...(graph.get(from) ?? []), to]);
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) found.push([...path.slice(path.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    done.add(file);
    for (const to of graph.get(file) ?? []) visit(to, [...path, file]);
  };
  for (const file of files) visit(file, []);
  return found;
}
