import { spawnSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import {
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PartFile, StreamWriter, WriteError, writeDurably } from '../../src/output/writer.js';
import { built } from '../support/children.js';

describe('a part file', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-part-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('goes on at its mark, and counts bytes and not characters', async () => {
    const path = join(folder, 'out.csv.part');
    writeFileSync(path, 'ünï\nhalf a rec');
    const file = await PartFile.open(path, 6);
    await file.commit('🙂\n');
    expect(file.bytes).toBe(11);
    await file.close();
    expect(readFileSync(path, 'utf8')).toBe('ünï\n🙂\n');
  });

  it('names itself when it cannot be opened or written', async () => {
    await expect(PartFile.open(join(folder, 'none', 'out.part'), 0)).rejects.toThrow(
      `cannot write ${join(folder, 'none', 'out.part')}: no such file or directory (ENOENT)`,
    );
    const file = await PartFile.open(join(folder, 'out.part'), 0);
    await file.close();
    await expect(file.commit('text')).rejects.toMatchObject({ path: join(folder, 'out.part'), full: false });
  });

  it('fault 63: is never taken for moved when it is deleted while it is looked for, or its content would be lost', async () => {
    const path = join(folder, 'out.part');
    // Either look may come first.
    for (let round = 0; round < 200; round++) {
      const file = await PartFile.open(path, 0);
      const looking = file.lost();
      rmSync(path);
      expect([await looking, await file.lost()]).not.toContain('moved');
      await file.close();
    }
  });
});

it('a process that ends while it replaces a file leaves no temporary one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-part-'));
  const path = join(folder, 'out.csv.run.json');
  const script = `
    const { existsSync } = await import('node:fs');
    const { writeDurably } = await import(${JSON.stringify(built('output/writer.js'))});
    void writeDurably(${JSON.stringify(path)}, '{}');
    // Another thread makes the file, and this one does not let it be written.
    while (!existsSync(${JSON.stringify(`${path}.tmp`)}));
    process.exit(7);
  `;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  const left = readdirSync(folder);
  rmSync(folder, { recursive: true });
  expect([status, stderr, left]).toEqual([7, '', []]);
});

it('a file that two processes replace at once is whole at any moment, and the one that began first is told', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-part-'));
  const path = join(folder, 'out.report.html');
  writeFileSync(path, 'old');
  /** Writes a half, and the rest when it is told to. */
  const begin = async (name: string) => {
    const gate = new EventEmitter();
    const half = once(gate, 'half');
    async function* content() {
      yield `${name} `;
      gate.emit('half');
      const [fault] = await once(gate, 'rest');
      if (fault !== undefined) throw fault;
      yield 'whole';
    }
    const done = writeDurably(path, content());
    await half;
    return async (fault?: Error) => {
      gate.emit('rest', fault);
      await done;
    };
  };
  const failFirst = await begin('failing');
  const endFirst = await begin('first');
  const endSecond = await begin('second');
  await expect(endFirst()).rejects.toThrow(`cannot write ${path}: another process is writing it now`);
  await expect(failFirst(new Error('the disk is full'))).rejects.toThrow('the disk is full');
  expect(readFileSync(path, 'utf8')).toBe('old');
  await endSecond();
  const found = [readFileSync(path, 'utf8'), readdirSync(folder)];
  rmSync(folder, { recursive: true });
  expect(found).toEqual(['second whole', ['out.report.html']]);
});

describe('standard output', () => {
  it('gets the header with the first records', async () => {
    const stream = new PassThrough();
    const writer = new StreamWriter(stream, 'id\n');
    expect(stream.read()).toBeNull();
    await writer.commit('1\n');
    await writer.commit('');
    await writer.commit('2\n');
    expect(String(stream.read())).toBe('id\n1\n2\n');
    expect(writer.bytes).toBe(7);
  });

  it.runIf(existsSync('/dev/full'))('fault 49: into a file on a full disk says so', async () => {
    const stream = createWriteStream('/dev/full');
    const refused = new StreamWriter(stream, 'id\n').commit('1\n');
    await expect(refused).rejects.toThrow('cannot write standard output: no space left on device (ENOSPC)');
    await expect(refused).rejects.toSatisfy((error) => error instanceof WriteError && error.full);
  });
});
