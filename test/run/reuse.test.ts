import { mkdirSync, readdirSync, rmdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { UsageError } from '../../src/core/errors.js';
import type { CalledOutcome, Json, Row } from '../../src/core/model.js';
import { assertSame, fingerprint } from '../../src/resume/fingerprint.js';
import type { Manifest } from '../../src/resume/manifest.js';
import { dropOutcomes, outcomesPath } from '../../src/resume/outcome-file.js';
import { type KnownRow, Reuse } from '../../src/resume/reuse.js';
import { csv } from '../../src/source/csv.js';
import { blockedPrompt, completed, failed } from '../output/records.js';
import { settingsFor } from '../resume/run-files.js';
import { Workplace } from '../support/promptmill.js';
import { servedEndpoint } from '../support/served-endpoint.js';

/** A run as far as it reuses: which rows it takes from where, and what it keeps of the others. */
interface Run {
  readonly run: string;
  readonly notes: readonly string[];
  /** Of the job file. */
  readonly input?: object;
  readonly parameters?: object;
  readonly flags?: RunFlags;
  readonly baseUrl?: string;
  /** Ids of the rows. @default their numbers */
  readonly ids?: readonly Json[];
  /** The name that the run had before. */
  readonly from?: string;
  /** Rows that an earlier process has committed. @default 0 */
  readonly committed?: number;
  /** What was changed in the output before the run goes on with it. */
  readonly since?: Manifest['since'];
  /** Rows to commit before the process ends; the run is finished when they are all. @default all */
  readonly last?: number;
  /** Runs over the same input whose outcomes are known. @default none */
  readonly known?: readonly string[];
  /** Whether its outcomes stay for others to know. @default false */
  readonly keeps?: boolean;
  /** Distinct requests that are remembered. */
  readonly most?: number;
}

describe('what a run takes over', () => {
  let state: Workplace;
  beforeEach(() => {
    state = new Workplace();
  });
  afterEach(() => state.remove());

  const left = (): string[] => readdirSync(state.path('reuse')).sort();
  let isFull = false;
  let told: readonly string[] = [];

  function answerTo(note: string): CalledOutcome {
    if (note.startsWith('fail')) return { ...failed, attempts: 1 };
    return note.startsWith('block') ? blockedPrompt : completed;
  }

  /** For each row from the first that is not committed: `called`, `copy of 3` or `from a-run`. */
  async function over(options: Run): Promise<string[]> {
    const { run, notes, committed = 0, last = notes.length, most, since } = options;
    const { known: runs = [], keeps = false } = options;
    const job = settingsFor(
      'out.csv',
      { input: { path: 'in.csv', ...options.input }, parameters: options.parameters ?? { temperature: 0 } },
      options.flags,
    );
    const files = runs.map((name) => ({ name, path: outcomesPath(state.folder, name) }));
    const settings = { ...job, stateDir: state.folder, reuse: { ...job.reuse, known: files, keeps } };
    const limit = settings.input.limit ?? notes.length;
    const survey = { format: csv, columns: ['id', 'note'], rows: notes.length } as const;
    const reuse = await Reuse.open({
      settings,
      endpoints: [servedEndpoint(options.baseUrl ?? 'https://one.example.net')],
      input: {
        survey: {
          ...survey,
          badRows: 0,
          sha256: 'same',
          bytes: 1,
          digests: { blockBytes: 1, bytes: Buffer.alloc(0) },
        },
        total: limit,
      },
      manifest: { run, rows: committed, ...(since && { since }) },
      from: options.from,
      ...(most !== undefined && { most }),
    });
    if (reuse === null) return notes.map(() => 'called');
    const known = new Map<number, KnownRow>();
    const looked = notes.slice(0, limit).flatMap((note, i) => {
      const fields = new Map<string, Json>([
        ['id', options.ids?.[i] ?? String(i + 1)],
        ['note', note],
      ]);
      const row: Row = { number: i + 1, line: i + 2, fields, bytes: 10 };
      return i < committed ? [] : [{ row, note, ...reuse.match(row, note, null) }];
    });
    const ends: string[] = [];
    for (const { row, note, source, keys } of looked.filter((each) => each.row.number <= last)) {
      const mine = { outcome: answerTo(note), run };
      const taken = source === null ? mine : reuse.take(source, known);
      known.set(row.number, { ...taken, keys });
      const { outcome } = taken;
      const { origin } = outcome;
      expect(outcome.status).toBe(mine.outcome.status);
      if (origin === undefined) ends.push('called');
      else if ('copied_from' in origin) ends.push(`copy of ${origin.copied_from}`);
      else ends.push(`from ${origin.carried_from}`);
    }
    await reuse.keep(known);
    isFull = reuse.isFull;
    told = reuse.known;
    if (last >= limit) await reuse.finish();
    await reuse.close();
    return ends;
  }

  const dedupe = { dedupe: true };
  const onlyNew = { only_new: true };

  it('are outcomes of rows that an earlier process has committed, and nothing of rows that it has not', async () => {
    const notes = ['a', 'fail', 'b', 'c', 'a', 'fail', 'c'];
    expect(await over({ run: 'r', input: dedupe, notes, last: 4 })).toEqual(Array(4).fill('called'));
    expect(left()).toEqual(['r.jsonl']);
    // Row 4 was kept and then not committed: it is another process's to call.
    expect(await over({ run: 'r', input: dedupe, notes, committed: 3 })).toEqual([
      'called',
      'copy of 1',
      'copy of 2',
      'copy of 4',
    ]);
    expect(left()).toEqual([]);
  });

  it('are none where the file is gone: rows are called once more, and copied from then on', async () => {
    const notes = ['a', 'b', 'a', 'a', 'b'];
    await over({ run: 'r', input: dedupe, notes, last: 2 });
    rmSync(state.path('reuse'), { recursive: true });
    const ends = await over({ run: 'r', input: dedupe, notes, committed: 2 });
    expect(ends).toEqual(['called', 'copy of 3', 'called']);
  });

  it.each<[string, NonNullable<Manifest['since']>]>([
    ['called again', { retried: { rows: 1, at: '2026-01-01T00:00:00.000Z' } }],
    ['reviewed', { merged_review: { rows: 1, at: '2026-01-01T00:00:00.000Z' } }],
  ])('are none of rows that may have been %s since', async (_, since) => {
    const notes = ['fail', 'a', 'fail', 'a', 'fail'];
    const first: RunFlags = { limit: 2 };
    expect(await over({ run: 'r', input: dedupe, notes, flags: first })).toEqual(['called', 'called']);
    const rest = await over({ run: 'r', input: dedupe, notes, committed: 2, since });
    expect(rest).toEqual(['called', 'called', 'copy of 3']);
    expect(left()).toEqual([]);
  });

  it('are outcomes of requests that are remembered; of others rows are called', async () => {
    const notes = ['a', 'b', 'c', 'a', 'b', 'c'];
    const ends = await over({ run: 'r', input: dedupe, notes, most: 2 });
    expect(ends).toEqual(['called', 'called', 'called', 'copy of 1', 'copy of 2', 'called']);
    expect(isFull).toBe(true);
    await over({ run: 'r', input: dedupe, notes, most: 3 });
    expect(isFull).toBe(false);
  });

  it('are answers of the last run to the same row: answered or blocked, not failed, wherever the row stands', async () => {
    await over({ run: 'r1', input: onlyNew, notes: ['a', 'fail', 'block', 'b'] });
    const again = { ids: ['4', '5', '3', '2', '1', '1'], notes: ['b', 'b', 'block', 'fail', 'a', 'a'] };
    expect(await over({ run: 'r2', input: onlyNew, ...again })).toEqual([
      'from r1',
      'called',
      'from r1',
      'called',
      'from r1',
      'from r1',
    ]);
    expect(await over({ run: 'r3', input: onlyNew, ...again })).toEqual([
      'from r1',
      'from r2',
      'from r1',
      'called',
      'from r1',
      'from r1',
    ]);
    // Only the last run counts: what was not in its input is new.
    await over({ run: 'r4', input: onlyNew, notes: ['x'] });
    expect(await over({ run: 'r5', input: onlyNew, ...again })).toEqual(Array(6).fill('called'));
    expect(left().length).toBe(1);
  });

  it('are none when something else would be sent, or somewhere else', async () => {
    const notes = ['a'];
    await over({ run: 'r1', input: onlyNew, notes });
    expect(await over({ run: 'r2', input: onlyNew, notes, parameters: { max_tokens: 5 } })).toEqual([
      'called',
    ]);
    const elsewhere = {
      input: onlyNew,
      notes,
      parameters: { max_tokens: 5 },
      baseUrl: 'https://two.example.net',
    };
    expect(await over({ run: 'r3', ...elsewhere })).toEqual(['called']);
    expect(await over({ run: 'r4', ...elsewhere })).toEqual(['from r3']);
    expect(await over({ run: 'r5', notes })).toEqual(['called']);
  });

  it('are none of a rehearsal in a real run, nor the other way round', async () => {
    const notes = ['a', 'b'];
    const emulate = { flags: { emulate: true }, input: onlyNew, notes };
    await over({ run: 'r1', ...emulate });
    expect(await over({ run: 'r2', input: onlyNew, notes })).toEqual(['called', 'called']);
    // The emulator has another port each time.
    const port = { baseUrl: 'http://127.0.0.1:9' };
    expect(await over({ run: 'r3', ...emulate, ...port })).toEqual(['from r1', 'from r1']);
    expect(await over({ run: 'r4', input: onlyNew, notes })).toEqual(['from r2', 'from r2']);
  });

  it('are not lost to a run over the first rows only', async () => {
    const notes = ['a', 'b', 'c'];
    const trial = { flags: { limit: 1 }, input: onlyNew, notes };
    expect(await over({ run: 'r1', ...trial })).toEqual(['called']);
    expect(await over({ run: 'r2', input: onlyNew, notes })).toEqual(['from r1', 'called', 'called']);
    expect(await over({ run: 'r3', ...trial })).toEqual(['from r1']);
    expect(await over({ run: 'r4', input: onlyNew, notes })).toEqual(['from r1', 'from r2', 'from r2']);
    // Both may yet go on with the rows behind the first.
    expect(left().filter((name) => /^r\d/.test(name))).toEqual(['r1.jsonl', 'r3.jsonl']);
  });

  it('are there for a run over the first rows that goes on with the others', async () => {
    const notes = ['a', 'b', 'a', 'b', 'c'];
    for (const input of [dedupe, { ...dedupe, ...onlyNew }]) {
      expect(await over({ run: 'r', flags: { limit: 2 }, input, notes })).toEqual(['called', 'called']);
      const rest = await over({ run: 'r', input, notes, committed: 2 });
      expect(rest).toEqual(['copy of 1', 'copy of 2', 'called']);
    }
    expect(await over({ run: 'r9', input: onlyNew, notes })).toEqual(notes.map(() => 'from r'));
  });

  it('are carried over first and copied where they are new, and copies are carried over as well', async () => {
    const input = { ...dedupe, ...onlyNew };
    const notes = ['a', 'b', 'a', 'fail', 'fail'];
    await over({ run: 'r1', input, notes });
    const more = [...notes, 'c', 'c', 'b'];
    expect(await over({ run: 'r2', input, notes: more })).toEqual([
      ...['from r1', 'from r1', 'from r1', 'called', 'copy of 4', 'called', 'copy of 6', 'copy of 2'],
    ]);
    const third = await over({ run: 'r3', input, notes: more });
    expect(third.slice(3)).toEqual(['called', 'copy of 4', 'from r2', 'from r2', 'from r1']);
  });

  it('go with a run that goes on under another name, and away with one that is given up', async () => {
    await over({ run: 'r1', input: dedupe, notes: ['a', 'b'], last: 1 });
    const again = { run: 'r2', from: 'r1', input: dedupe, notes: ['a', 'a', 'b'], committed: 1, last: 2 };
    expect(await over(again)).toEqual(['copy of 1']);
    // What can go wrong has, when the run of before is given up.
    expect(left()).toEqual(['r1.jsonl', 'r2.jsonl']);
    await dropOutcomes(state.folder, 'r1');
    await dropOutcomes(state.folder, 'r2');
    expect(left()).toEqual([]);
  });

  it('that cannot be copied leave nothing behind, and what a kill has left is copied over', async () => {
    const again = { run: 'r2', from: 'r1', input: dedupe, notes: ['a', 'a', 'b'], committed: 1, last: 2 };
    // A folder can be opened and not be read.
    mkdirSync(state.path('reuse/r1.jsonl'), { recursive: true });
    await expect(over(again)).rejects.toThrow(UsageError);
    expect(left()).toEqual(['r1.jsonl']);

    rmdirSync(state.path('reuse/r1.jsonl'));
    await over({ run: 'r1', input: dedupe, notes: ['a', 'b'], last: 1 });
    state.write('reuse/r1.jsonl.tmp', 'half');
    expect(await over(again)).toEqual(['copy of 1']);
    expect(left()).toEqual(['r1.jsonl', 'r2.jsonl']);
  });

  it('are the answers of runs over the same input whose files are named, by line and request', async () => {
    const warm = { parameters: { temperature: 1 } };
    const notes = ['a', 'fail', 'b', 'block'];
    await over({ ...warm, run: 'r1', notes, keeps: true });
    await over({ ...warm, run: 'r2', notes: ['x', 'y', 'b', 'z', 'c'], keeps: true, known: ['r1'] });
    expect(left()).toEqual(['r1.jsonl', 'r2.jsonl']);
    const all = ['a', 'fail', 'B', 'block', 'c'];
    // A failed row is called again. The file that is named first counts.
    expect(await over({ ...warm, run: 'r3', notes: all, known: ['gone', 'r2', 'r1'] })).toEqual([
      'from r1',
      'called',
      'called',
      'from r1',
      'from r2',
    ]);
    expect(told).toEqual([
      '0 rows are known from gone',
      '5 rows are known from r2',
      '2 rows are known from r1',
    ]);
    expect(await over({ run: 'r3', notes: ['a'], known: ['r1'] })).toEqual(['called']);
    expect(left()).toEqual(['r1.jsonl', 'r2.jsonl']);
  });

  it('are those of named files beside those of the last run, which a run that keeps its own leaves', async () => {
    await over({ run: 'r1', notes: ['a', 'b'], input: onlyNew });
    const [answered] = left();
    await over({ run: 'r2', notes: ['x', 'b', 'c'], input: onlyNew, keeps: true });
    expect(left()).toEqual(['r2.jsonl', answered].sort());
    // Row a has another line; its id is the same.
    const moved = { notes: ['c', 'b', 'c', 'a'], ids: [9, 8, 7, '1'] };
    expect(await over({ ...moved, run: 'r3', input: onlyNew, known: ['r2'] })).toEqual([
      'called',
      'from r1',
      'from r2',
      'from r1',
    ]);
  });

  it('is part of what an unfinished run depends on, and no obstacle for the runs of before', () => {
    const print = (
      input: object,
    ): { fingerprint: Record<string, string>; values: Record<string, string> } => ({
      fingerprint: fingerprint(settingsFor('out.csv', { input: { path: 'in.csv', ...input } }), 'same'),
      values: {},
    });
    const prints = [{}, dedupe, onlyNew, { ...onlyNew, id: 'note' }, { ...dedupe, ...onlyNew }].map(print);
    for (const [i, before] of prints.entries()) {
      for (const [j, now] of prints.entries()) {
        const continued = (): void => assertSame(before, now, 'out.csv.run.json');
        if (i === j) continued();
        else expect(continued).toThrow(/changed: input\.(dedupe|only_new|id)\b/);
      }
    }
    expect(Object.keys(print({}).fingerprint).filter((name) => /dedupe|only_new|id/.test(name))).toEqual([]);
  });

  it('need a state directory that can be written', async () => {
    state.write('reuse', 'a file where the folder should be');
    await expect(over({ run: 'r', input: onlyNew, notes: ['a'] })).rejects.toThrow(
      expect.objectContaining({ exit: 2, code: 'bad_state_dir' }),
    );
  });

  it('leave no files of runs that nobody has continued for weeks', async () => {
    await over({ run: 'old', input: dedupe, notes: ['a', 'b'], last: 1 });
    await over({ run: 'new', input: dedupe, notes: ['a', 'b'], last: 1 });
    await over({ run: 'done', input: onlyNew, notes: ['a'] });
    const monthAgo = new Date(Date.now() - 30 * 24 * 3_600_000);
    const answered = left().filter((name) => name.endsWith('.answered.jsonl'));
    state.write('reuse/old.jsonl.tmp', 'half');
    for (const name of ['old.jsonl', 'old.jsonl.tmp', ...answered])
      utimesSync(join(state.path('reuse'), name), monthAgo, monthAgo);
    await over({ run: 'r', input: dedupe, notes: ['a'] });
    expect(left()).toEqual(['new.jsonl', ...answered].sort());
  });
});
