import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { makeFolder, prepareStateDir } from '../../src/core/folder.js';
import { Halt } from '../../src/core/halt.js';
import type { Committer } from '../../src/resume/committer.js';
import { findTarget, takeOutput } from '../../src/resume/output-target.js';
import { WholeOutput } from '../../src/resume/whole-output.js';
import { completed } from '../output/records.js';
import { commitTo, finish, openCommitter, type Rows, rowsOf, settingsFor, summaryOf } from './run-files.js';

const NOW = new Date(2026, 10, 21, 2, 0);

describe('the place of an output', () => {
  let folder = '';
  let rows: Rows;
  const committers: Committer[] = [];
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-place-'));
    const notes = ['one', 'two', 'three'];
    rows = await rowsOf(
      settings(),
      notes.map((note) => ({ note, outcome: completed })),
    );
  });
  afterEach(async () => {
    for (const committer of committers.splice(0)) await committer.pause().catch(() => {});
    rmSync(folder, { recursive: true, force: true });
  });

  const path = (name = 'out.csv'): string => join(folder, name);
  const read = (name = 'out.csv'): string => readFileSync(path(name), 'utf8');
  const settings = (flags: RunFlags = {}, name = 'out.csv') => settingsFor(path(name), {}, flags);

  async function open(flags: RunFlags = {}): Promise<Committer> {
    const { committer } = await openCommitter(settings(flags), rows);
    committers.push(committer);
    return committer;
  }

  /** A run that has written two of its three rows. */
  async function begun(flags: RunFlags = {}): Promise<Committer> {
    const committer = await open(flags);
    await commitTo(committer, rows, 2);
    return committer;
  }

  /** The process ends, and the same command does the rest. */
  async function complete(flags: RunFlags = {}): Promise<void> {
    for (const committer of committers.splice(0)) await committer.pause().catch(() => {});
    const committer = await open(flags);
    committers.pop();
    await commitTo(committer, rows, 3);
    await finish(committer, summaryOf(committer, path()));
    expect(read()).toBe(rows.text);
  }

  const refusal = async (flags: RunFlags = {}, name = 'out.csv'): Promise<unknown> =>
    findTarget(settings(flags, name), NOW).then(
      () => null,
      (error: unknown) => error,
    );

  describe('fault 62: an empty output and --overwrite', () => {
    it('gets nothing under its name until every row is written', async () => {
      writeFileSync(path(), '');
      const committer = await begun({ overwrite: true });
      expect([read(), existsSync(path('out.csv.part'))]).toEqual(['', true]);
      await committer.pause();
      committers.pop();
      expect(read()).toBe('');
      await complete();
    });

    it('is not taken for the finished output of a run whose part file is gone', async () => {
      writeFileSync(path('out.jsonl'), '');
      const jsonl = settings({ overwrite: true }, 'out.jsonl');
      const empty = await rowsOf(jsonl, []);
      await (await openCommitter(jsonl, empty)).committer.pause();
      rmSync(path('out.jsonl.part'));
      const { target, committer } = await openCommitter(jsonl, empty);
      committers.push(committer);
      expect(target.renamed).toBe(false);
      expect(existsSync(path('out.jsonl.part'))).toBe(true);
    });
  });

  it('fault 42: an output that is to be replaced is not taken for the new one, however alike their ends', async () => {
    const flags = { overwrite: true };
    const ended = (note: string) =>
      [note, 'x'.repeat(5_000)].map((each) => ({ note: each, outcome: completed }));
    const [older, newer] = [await rowsOf(settings(), ended('one')), await rowsOf(settings(), ended('two'))];
    writeFileSync(path(), older.text);
    const { committer } = await openCommitter(settings(flags), newer);
    await commitTo(committer, newer, 2);
    // Killed when all but the name is done.
    await new WholeOutput(committer).writeSummary(summaryOf(committer, path()), null);
    await committer.close();

    const again = await openCommitter(settings(flags), newer);
    expect(again.target.renamed).toBe(false);
    await finish(again.committer, summaryOf(again.committer, path()));
    expect(read()).toBe(newer.text);
  });

  describe('fault 63: what others do while the run goes on', () => {
    const part = 'out.csv.part';
    const moved = (): string => `${folder}-moved`;
    afterEach(() => rmSync(moved(), { recursive: true, force: true }));

    it.each<[string, string, () => void, () => void]>([
      ['the part file is deleted', 'part_lost', () => rmSync(path(part)), () => {}],
      [
        'the part file is replaced',
        'part_lost',
        () => {
          rmSync(path(part));
          writeFileSync(path(part), 'id,note\n1,mine\n');
        },
        () => renameSync(path(`${part}.rescued`), path(part)),
      ],
      ['the part file is cut', 'part_lost', () => truncateSync(path(part), 5), () => {}],
      ['the part file grows', 'part_lost', () => writeFileSync(path(part), 'x', { flag: 'a' }), () => {}],
      [
        'the part file is moved away',
        'part_lost',
        () => renameSync(path(part), path('x')),
        () => renameSync(path('x'), path(part)),
      ],
      [
        'the folder is renamed',
        'output_moved',
        () => renameSync(folder, moved()),
        () => renameSync(moved(), folder),
      ],
      ['the manifest is deleted', 'manifest_lost', () => rmSync(path('out.csv.run.json')), () => {}],
      [
        'the manifest is replaced',
        'manifest_lost',
        () => {
          writeFileSync(path('x'), read('out.csv.run.json'));
          renameSync(path('x'), path('out.csv.run.json'));
        },
        () => {},
      ],
    ])(
      'stops it because %s, at a commit and at the end, and the same command goes on',
      async (_, code, harm, mend) => {
        const committer = await begun();
        harm();
        await expect(commitTo(committer, rows, 3)).rejects.toMatchObject({ exit: 3, code });
        expect(existsSync(path())).toBe(false);
        await committer.pause();
        mend();
        await complete();

        rmSync(path());
        const other = await begun();
        await commitTo(other, rows, 3);
        harm();
        await expect(finish(other, summaryOf(other, path()))).rejects.toMatchObject({ exit: 3, code });
        expect(existsSync(path())).toBe(false);
      },
    );

    it('refuses to go on with the part file of somebody else, or with none', async () => {
      await (await begun()).pause();
      const own = read(part);
      writeFileSync(path(part), own.replaceAll('one', 'two').replaceAll('two', 'six'));
      expect(await refusal()).toMatchObject({ exit: 2, code: 'part_foreign' });
      rmSync(path(part));
      // Of the size that a finished output would have now.
      writeFileSync(path(), 'x'.repeat(own.length));
      expect(await refusal()).toMatchObject({ exit: 2, code: 'output_exists' });
      expect(await refusal({ overwrite: true })).toMatchObject({ exit: 2, code: 'part_damaged' });
      rmSync(path());
      writeFileSync(path(part), own);
      committers.length = 0;
      await complete();
    });
  });

  describe('fault 91: an output with the first rows, to which others are added', () => {
    let whole = '';
    const swapped = () => whole.replace('one', 'XXX').replace('two', 'one').replace('XXX', 'two');
    beforeEach(async () => {
      const first = await begun();
      await finish(first, { ...summaryOf(first, path()), beyond: 1 });
      whole = read();
    });

    it('is not gone on from where it was changed while the input was read', async () => {
      const target = await findTarget(settings(), NOW);
      writeFileSync(path(), swapped());
      await expect(openCommitter(settings(), rows, 3, target)).rejects.toMatchObject({
        exit: 2,
        code: 'output_changed',
      });
      expect([read(), existsSync(path('out.csv.part'))]).toEqual([swapped(), false]);
      writeFileSync(path(), whole);
      await complete();
    });

    it('is not replaced where it was changed while rows were called: the next execution waits for it', async () => {
      const committer = await begun();
      await commitTo(committer, rows, 3);
      writeFileSync(path(), swapped());
      await expect(finish(committer, summaryOf(committer, path()))).rejects.toMatchObject({
        exit: 3,
        code: 'output_changed',
        message: expect.stringContaining('was changed while the run went on'),
      });
      committers.length = 0;
      expect(read()).toBe(swapped());
      expect(await refusal()).toMatchObject({ message: expect.stringContaining('was changed since') });
      writeFileSync(path(), whole);
      await complete();
    });
  });

  describe("fault 64: a stranger's file at the name of the output", () => {
    it('stays, the run stops at its end, and needs only the name when the file is moved away', async () => {
      const committer = await begun();
      writeFileSync(path(), 'mine');
      await commitTo(committer, rows, 3);
      const error = await finish(committer, summaryOf(committer, path())).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ exit: 3, code: 'output_taken' });
      committers.length = 0;
      expect([read(), read('out.csv.part')]).toEqual(['mine', rows.text]);
      expect(await refusal()).toMatchObject({ exit: 2, code: 'output_exists' });
      renameSync(path(), path('mine.csv'));
      await complete();
      expect([existsSync(path('out.csv.part')), existsSync(path('out.csv.run.json'))]).toEqual([
        false,
        false,
      ]);
    });

    it('is replaced when the run began with --overwrite, or goes on with it', async () => {
      writeFileSync(path(), 'old');
      await begun({ overwrite: true });
      await complete();
      rmSync(path());
      await begun();
      writeFileSync(path(), 'mine');
      await complete({ overwrite: true });
    });

    it('may be a link that leads nowhere', async () => {
      symlinkSync(path('nowhere'), path());
      expect(await refusal()).toMatchObject({ code: 'output_exists' });
    });

    it('may be a link to itself, which is said', async () => {
      symlinkSync(path(), path());
      expect(await refusal()).toMatchObject({ code: 'output_not_writable', message: /ELOOP/ });
    });
  });

  describe('fault 65: a link that somebody planted', () => {
    it.each([
      'out.csv.part',
      'out.csv.run.json',
      'out.summary.json',
      'out.csv.run.json.tmp',
      'out.summary.json.tmp',
    ])('at %s is refused', async (name) => {
      writeFileSync(path('victim'), 'precious');
      symlinkSync(path('victim'), path(name));
      const error = await refusal({ overwrite: true });
      expect(error).toMatchObject({ exit: 2, code: 'output_not_writable' });
      expect(String(error)).toContain(`${path(name)} is a symbolic link`);
      expect(read('victim')).toBe('precious');
    });

    it('while the run goes on, at the names of temporary files, is not followed', async () => {
      const committer = await begun();
      writeFileSync(path('victim'), 'precious');
      for (const name of ['out.csv.run.json.tmp', 'out.summary.json.tmp'])
        symlinkSync(path('victim'), path(name));
      await commitTo(committer, rows, 3);
      await finish(committer, summaryOf(committer, path()));
      committers.length = 0;
      expect([read('victim'), read()]).toEqual(['precious', rows.text]);
    });

    it('in place of the folder of the output is followed, which is the way to have it elsewhere', async () => {
      mkdirSync(path('real'));
      symlinkSync('real', path('linked'));
      const linked = settingsFor(path('linked/out.csv'));
      const { committer } = await openCommitter(linked, rows);
      await commitTo(committer, rows, 3);
      await finish(committer, summaryOf(committer, path('linked/out.csv')));
      expect(read('real/out.csv')).toBe(rows.text);
    });

    it('as a second name of the part file keeps what it had', async () => {
      await (await begun()).pause();
      committers.length = 0;
      linkSync(path('out.csv.part'), path('copy'));
      const before = read('copy');
      await complete();
      expect(read('copy')).toBe(before);
    });
  });

  describe('fault 66: two outputs of one stem', () => {
    it('the second is refused while the summary is that of the first', async () => {
      const committer = await begun();
      expect(await refusal({}, 'out.jsonl')).toMatchObject({ exit: 2, code: 'summary_in_use' });
      await commitTo(committer, rows, 3);
      await finish(committer, summaryOf(committer, path()));
      committers.length = 0;
      const error = await refusal({}, 'out.jsonl');
      expect(error).toMatchObject({
        exit: 2,
        code: 'summary_in_use',
        message: `${path('out.summary.json')} is the summary of out.csv, and out.jsonl would have the same one`,
        hint: expect.stringContaining(`--output ${path('out-2.jsonl')}`),
      });
      expect(await refusal({}, 'out.csv.gz')).toMatchObject({
        code: 'summary_in_use',
        hint: expect.stringContaining(`--output ${path('out-2.csv.gz')}`),
      });
      expect(await refusal({}, 'out-2.jsonl')).toBeNull();
      expect(await refusal({ overwrite: true })).toBeNull();
      rmSync(path());
      expect(await refusal({}, 'out.jsonl')).toBeNull();
    });

    it.each(['out.jsonl', 'out.csv.gz'])(
      'the second, %s, is refused while the first is at work',
      async (name) => {
        const context = { say: () => {}, halt: new Halt() };
        const first = await takeOutput(settings(), NOW, context);
        const second = takeOutput(settings({}, name), NOW, context);
        await expect(second).rejects.toMatchObject({
          code: 'locked',
          hint: expect.stringContaining('--output'),
        });
        first?.lock?.release();
        (await takeOutput(settings({}, name), NOW, context))?.lock?.release();
      },
    );
  });

  describe('fault 67: an output that is no file', () => {
    it.each([
      ['a pipe', () => execFileSync('mkfifo', [path()])],
      ['a link to a device', () => symlinkSync('/dev/null', path())],
    ])('is refused as %s, with a way to write to it', async (_, make) => {
      make();
      for (const overwrite of [false, true]) {
        expect(await refusal({ overwrite })).toMatchObject({
          exit: 2,
          code: 'output_not_writable',
          hint: `Write to standard output instead: --output - > ${path()}`,
        });
      }
    });

    it.each(['out.csv.part', 'out.csv.run.json', 'out.summary.json'])('has a pipe at %s', async (name) => {
      execFileSync('mkfifo', [path(name)]);
      expect(String(await refusal())).toContain(`${path(name)} is not a file`);
    });

    it('is in a folder that nobody can make', async ({ skip }) => {
      if (!existsSync('/proc/self')) skip('this system has no /proc, in which nobody can make a folder');
      expect(() => makeFolder('/proc/x/y')).toThrow('ENOENT');
      const context = { say: () => {}, halt: new Halt() };
      await expect(takeOutput(settingsFor('/proc/x/out.csv'), NOW, context)).rejects.toMatchObject({
        exit: 2,
        code: 'output_not_writable',
      });
    });
  });

  describe('fault 68: the state directory', () => {
    const mode = (name: string): number => statSync(path(name)).mode & 0o777;

    it('is made for its owner only', () => {
      prepareStateDir(path('deep/state'));
      expect([mode('deep'), mode('deep/state')]).toEqual([0o700, 0o700]);
    });

    it('that others may read is closed, with what is in it', () => {
      for (const name of ['state', 'state/store', 'state/board']) mkdirSync(path(name), { mode: 0o755 });
      writeFileSync(path('state/stdin-1'), 'rows', { mode: 0o644 });
      prepareStateDir(path('state'));
      expect(['state', 'state/store', 'state/board', 'state/stdin-1'].map(mode)).toEqual([
        0o700, 0o700, 0o700, 0o600,
      ]);
    });

    it('that is the folder of other things as well keeps its mode', () => {
      for (const name of ['home', 'home/store', 'home/photos']) mkdirSync(path(name), { mode: 0o755 });
      chmodSync(path('home'), 0o755);
      prepareStateDir(path('home'));
      expect(['home', 'home/store', 'home/photos'].map(mode)).toEqual([0o755, 0o700, 0o755]);
    });
  });

  describe('fault 60: the lock of an output', () => {
    const context = { say: () => {}, halt: new Halt() };

    it.each([
      ['out.csv', '.out.lock'],
      ['{{date}}/out.csv', '.{{date}}%2Fout.lock'],
      ['out-{{ date }}.csv', '.out-{{date}}.lock'],
    ])('of %s stands beside it as %s while it is held', async (name, lockName) => {
      const place = await takeOutput(settings({}, name), NOW, context);
      expect(existsSync(path(lockName))).toBe(true);
      await expect(takeOutput(settings({}, name), NOW, context)).rejects.toMatchObject({ code: 'locked' });
      place?.lock?.release();
      expect(existsSync(path(lockName))).toBe(false);
    });

    it('is also that of the file that a date comes to', async () => {
      const place = await takeOutput(settings({}, 'out-{{date}}.csv'), NOW, context);
      const same = takeOutput(settings({}, 'out-2026-11-21.csv'), NOW, context);
      await expect(same).rejects.toMatchObject({ code: 'locked' });
      place?.lock?.release();
    });

    it('once lost, ends the run before it writes anything', async () => {
      const place = await takeOutput(settings(), NOW, context);
      if (place === null) throw new Error('the output is a file');
      const { committer } = await openCommitter(settings(), rows, 3, place);
      await commitTo(committer, rows, 1);
      const before = [read('out.csv.part'), read('out.csv.run.json')];
      rmSync(path('.out.lock'), { recursive: true });
      await expect(commitTo(committer, rows, 2)).rejects.toMatchObject({ exit: 3, code: 'lock_lost' });
      await committer.pause();
      expect([read('out.csv.part'), read('out.csv.run.json')]).toEqual(before);
      place.lock?.release();
    });
  });
});
