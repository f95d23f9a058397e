import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { built, startChild } from '../support/children.js';
import { MemoryPlace } from '../support/memory-place.js';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';
import { settingsFor } from './run-files.js';

describe('fault 52: an output that cannot be written', () => {
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
  });
  afterEach(() => place.work.remove());

  it.each<[string, string, RunFlags, string]>([
    [
      'there is a folder in its place',
      'out.csv/x',
      { overwrite: true },
      'cannot write out.csv: out.csv is a folder',
    ],
    ['there is a folder in place of the part file', 'out.csv.part/x', {}, 'out.csv.part is a folder'],
    ['there is a folder in place of the summary', 'out.summary.json/x', {}, 'out.summary.json is a folder'],
    [
      'there is a folder in place of the manifest',
      'out.csv.run.json/x',
      { restart: true },
      'out.csv.run.json is a folder',
    ],
    [
      'there is a file in place of its folder',
      'out',
      { output: 'out/out.csv' },
      'cannot write out/out.csv: ',
    ],
  ])('is refused before the first call because %s', async (_, blocker, flags, message) => {
    const { work, machine } = place;
    work.write(blocker, 'mine');
    const job = work.job({ input: { path: work.rows(2) }, output: { path: 'out.csv' } });
    const { code, said } = await place.run(job, flags);
    expect(code, said).toBe(2);
    expect(said).toContain(message);
    expect(said).toMatch(/\n.*name another file with --output/i);
    expect(machine.calls()).toBe(0);
    expect(work.read(blocker)).toBe('mine');
  });
});

describe('an output that is the input', () => {
  it('is refused, also with --overwrite, and the input stays', async () => {
    const work = new Workplace();
    const service = await startScriptedService();
    const job = work.job({ input: { path: work.rows(3, 'both.csv') }, output: { path: './both.csv' } });
    const before = work.read('both.csv');
    const { code, stderr } = await work.call(['run', job, '--overwrite'], {
      PROMPTMILL_BASE_URL: service.url,
    });
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('the input both.csv and ./both.csv are the same file');
    expect(work.read('both.csv')).toBe(before);
    const checked = await work.call(['check', job]);
    expect(checked.code, checked.stderr).toBe(2);
    expect(checked.stderr).toContain('are the same file');
    expect(service.requests.length).toBe(0);
    await service.close();
    work.remove();
  });

  it.each(['out.csv', 'out.csv.part'])('is refused, too, where input.done names %s', async (done) => {
    const work = new Workplace();
    const job = work.job({ input: { path: work.rows(3), done }, output: { path: 'out.csv' } });
    work.write(done, 'answers that were paid for\n');
    const { code, stderr } = await work.call(['run', job, '--overwrite'], {
      PROMPTMILL_BASE_URL: 'http://127.0.0.1:9',
    });
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(`${done}, which input.done names, and ${done} are the same file`);
    expect(work.read(done)).toBe('answers that were paid for\n');
    work.remove();
  });
});

describe('fault 52: an output without the permission to write it', () => {
  let child: ReturnType<typeof startChild>;
  let folder = '';
  beforeAll(() => {
    child = startChild(FIND);
  });
  afterAll(() => child.kill());
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-place-'));
    chmodSync(folder, 0o755);
  });
  afterEach(() => {
    for (const path of [folder, join(folder, 'out')]) if (existsSync(path)) chmodSync(path, 0o755);
    rmSync(folder, { recursive: true, force: true });
  });

  const leave = (name: string, mode: number): void => {
    mkdirSync(join(folder, 'out'), { recursive: true });
    writeFileSync(join(folder, 'out', name), '');
    chmodSync(join(folder, 'out', name), mode);
    chmodSync(join(folder, 'out'), 0o777);
  };

  it.each([
    [
      'its folder may not be written',
      () => {
        mkdirSync(join(folder, 'out'));
        chmodSync(join(folder, 'out'), 0o555);
      },
      'output_not_writable',
    ],
    ['its folder may not be made', () => chmodSync(folder, 0o555), 'output_not_writable'],
    ['the part file may not be written', () => leave('out.csv.part', 0o444), 'output_not_writable'],
    ['the manifest may not be read', () => leave('out.csv.run.json', 0o000), 'manifest_unreadable'],
  ])('is refused because %s', async (_, arrange, code) => {
    arrange();
    child.tell(JSON.stringify(settingsFor(join(folder, 'out', 'out.csv'))));
    expect(await child.line()).toBe(`${code} 2`);
  });
});

/** Finds the targets of runs as somebody whom permissions bind; the superuser becomes nobody, once the code is read. */
const FIND = `
  import { findTarget } from '${built('resume/output-target.js')}';
  if (process.getuid() === 0) process.setuid('nobody');
  for await (const line of lines) {
    const found = await findTarget(JSON.parse(line), new Date()).catch((error) => error);
    console.log(found.code, found.exit);
  }
`;
