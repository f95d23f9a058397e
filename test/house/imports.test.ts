import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

/**
 * Imports go one way, from the words and the pure parts over the edges to the commands. Type imports count:
 * a type that points upwards is a design that does.
 */
const src = join(import.meta.dirname, '../../src');

/** Layers from the bottom up; a file may import from its own layer and from those below. */
const LAYERS: readonly (readonly [name: string, ...files: RegExp[]])[] = [
  ['words', /^model\.ts$/, /^errors\.ts$/, /^clock\.ts$/],
  [
    'pure parts',
    /^prompt\//,
    /^pace\//,
    /^check\/(?!check-job\.ts)/,
    /^report\/(tally|counts|latency|summary|untrusted|figures|rate|progress-line|terminal|terminal-sections|terminal-text|check-terminal)\.ts$/,
    /^service\/(?!client\.ts)/,
    /^output\/(?!(writer|own-file)\.ts)/,
    /^config\/(nearest)\.ts$/,
    /^ledger\/ledger\.ts$/,
    /^queue\/(chunk|names)\.ts$/,
    /^fleet\//,
    /^reuse\/(?!outcome-file\.ts)/,
  ],
  ['configuration', /^config\//],
  [
    'edges',
    /^source\//,
    /^service\/client\.ts$/,
    /^queue\//,
    /^ledger\//,
    /^output\/(writer|own-file)\.ts$/,
    /^report\/progress\.ts$/,
    /^lock\.ts$/,
    /^folder\.ts$/,
    /^reuse\//,
    /^schedule\//,
  ],
  ['run', /^run\//, /^check\/check-job\.ts$/],
  ['emulator', /^emulator\//],
  ['night shift', /^serve\//, /^web\//],
  ['commands', /^commands\//],
  ['entry points', /^cli\.ts$/, /^index\.ts$/],
];

/** Packages that only some folders may import. */
const RESERVED: readonly (readonly [packages: RegExp, allowed: RegExp])[] = [
  [/^bullmq$/, /^(queue|schedule)\//],
  [/^(ioredis|pg|@electric-sql\/pglite.*)$/, /^(queue|ledger)\//],
  [/^(fastify|@fastify\/.*|@bull-board\/.*|prom-client)$/, /^web\//],
  [/^undici$/, /^service\/(client|tunnel)\.ts$/],
];

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the house', () => {
  it('has a layer for every file', () => {
    expect(files.filter((file) => layerOf(file) === -1)).toEqual([]);
  });

  it('imports only downwards', () => {
    const upwards = edges().filter(([from, to]) => layerOf(to) > layerOf(from));
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

  it('imports the emulator only from commands', () => {
    const strays = edges().filter(
      ([from, to]) => to.startsWith('emulator/') && !/^(emulator|commands)\//.test(from),
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

const layerOf = (file: string): number =>
  LAYERS.findIndex(([, ...patterns]) => patterns.some((pattern) => pattern.test(file)));

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
