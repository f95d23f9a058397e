import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

/**
 * Imports go one way, from the words and the pure parts over the edges to the commands. Type imports count:
 * a type that points upwards is a design that does.
 */
const src = join(import.meta.dirname, '../../src');

/** The folders from the bottom up; a folder imports from itself and from those below. */
const FOLDERS = [
  'core',
  'source',
  'service',
  'store',
  'answer',
  'prompt',
  'output',
  'account',
  'render',
  'pace',
  'config',
  'queue',
  'ops',
  'worker',
  'resume',
  'batch',
  'compare',
  'run',
  'amend',
  'emulator',
  'library',
  'commands',
  'entry points',
];

/** The files at the top of `src/`; they may import everything. */
const ENTRY_POINTS = ['cli.ts', 'index.ts'];

/** With more, a folder is two things under one name. `core` is there for all. */
const MOST_IMPORTERS = 10;

/** Packages that only some folders may import. */
const RESERVED: readonly (readonly [packages: RegExp, allowed: RegExp])[] = [
  [/^bullmq$/, /^(store|queue|worker|ops\/schedule)\//],
  [/^ioredis$/, /^store\//],
  [/^(fastify|@fastify\/.*|prom-client)$/, /^ops\/web\//],
  [/^undici$/, /^service\//],
];

/** Who may import `render/`: all others count, and leave it to these how that is shown. */
const SHOWING =
  /^(render|commands|ops\/web)\/|^[\w/]+\/[\w-]+-document\.ts$|^(run\/check\/check-job|resume\/report-file|run\/events)\.ts$/;

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the architecture', () => {
  it('has a place in the order for every folder', () => {
    expect([...new Set(files.map(folderOf))].sort()).toEqual([...FOLDERS].sort());
  });

  it('is described folder by folder, in the same order, in docs/architecture.md', () => {
    const text = readFileSync(join(src, '../docs/architecture.md'), 'utf8');
    const described = [...text.matchAll(/^\| `([a-z]+)\/`/gm)].map((match) => match[1]);
    expect(described).toEqual(FOLDERS.slice(0, -1));
  });

  it('imports only from folders below', () => {
    const place = (file: string): number => FOLDERS.indexOf(folderOf(file));
    const upwards = edges().filter(([from, to]) => place(to) > place(from));
    expect(upwards.map(([from, to]) => `${from} → ${to}`)).toEqual([]);
  });

  it('has no folder but core that more than ten others import', () => {
    const importers = new Map<string, Set<string>>();
    for (const [from, to] of edges()) {
      const [user, used] = [folderOf(from), folderOf(to)];
      if (user === used || user === 'entry points' || used === 'core') continue;
      importers.set(used, (importers.get(used) ?? new Set()).add(user));
    }
    const crowded = [...importers].filter(([, users]) => users.size > MOST_IMPORTERS);
    expect(crowded.map(([used, users]) => `${used} ← ${[...users].join(', ')}`)).toEqual([]);
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

function folderOf(file: string): string {
  return ENTRY_POINTS.includes(file) ? 'entry points' : (file.split('/')[0] ?? file);
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
