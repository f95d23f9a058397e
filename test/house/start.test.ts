import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

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

let work: Workplace;
beforeEach(() => {
  work = new Workplace();
});
afterEach(() => work.remove());

function watched(): Record<string, string> {
  return {
    LOADED: work.path('loaded'),
    NODE_OPTIONS: `--require ${work.path(work.write('watch.cjs', WATCH))}`,
  };
}

/** The packages in a file: its own, or those that the bundle has put into it, each part under a comment with its path. */
function packagesIn(url: string): string[] {
  const paths = [url, ...(readFileSync(new URL(url), 'utf8').match(/^\/\/ node_modules\/.*/gm) ?? [])];
  return paths.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
}

const loaded = (): string[] => work.read('loaded').trimEnd().split('\n');

describe('to say its version', () => {
  it('takes a handful of files', async () => {
    const { code, stdout } = await work.run(['--version'], watched());
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(loaded().length).toBeLessThanOrEqual(11);
  });
});

describeEachStore('before its first call', (store) => {
  it('a run loads few files, and no package that it has no use for', async () => {
    let before: string[] = [];
    const service = await startScriptedService(() => {
      if (before.length === 0) before = loaded();
      return { json: completionBody() };
    });
    try {
      const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
      const { code, stderr } = await work.run(['run', job, '--queue', store().target], {
        PROMPTMILL_BASE_URL: service.url,
        ...watched(),
      });
      expect(code, stderr).toBe(0);
      // Commands that share a module have a small file for it: with each further command there may be one more.
      expect(before.length).toBeLessThanOrEqual(100);
      const packages = new Set(before.flatMap(packagesIn));
      expect(packages).toContain('undici');
      expect(NOT_NEEDED.filter((name) => packages.has(name))).toEqual([]);
    } finally {
      await service.close();
    }
  });
});
