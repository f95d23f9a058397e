import { unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Settings } from '../../src/config/settings.js';
import type { CalledOutcome, Row } from '../../src/core/model.js';
import { rowRequest } from '../../src/prompt/row-request.js';
import { Committer } from '../../src/resume/committer.js';
import { findTarget } from '../../src/resume/output-target.js';
import { beginManifest } from '../../src/resume/resume.js';
import { type KnownRow, Reuse } from '../../src/resume/reuse.js';
import { planRows } from '../../src/run/plan.js';
import { csv } from '../../src/source/csv.js';
import { blockedPrompt, completed, failed } from '../output/records.js';
import { finish, settingsFor, summaryOf } from '../resume/run-files.js';
import { CrashFolder, crashWithin } from '../support/crashing-disk.js';
import { servedEndpoint } from '../support/served-endpoint.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const NOW = new Date(2026, 10, 21, 2, 0);

const crash = crashWithin(40);
/** Few different questions, so that many rows ask the same; `f` fails and `b` is blocked. */
const STATUS = new Map([
  ['f', 'failed'],
  ['b', 'filtered'],
]);
const questions = fc.array(fc.constantFrom('a', 'c', 'f', 'b'), { minLength: 1, maxLength: 10 });

describe('a run that reuses outcomes and dies at any point of its work on the disk', () => {
  // One folder for all files, because the disk that crashes has only one.
  const folder = new CrashFolder('reuse');
  const stateDir = dirname(folder.path);
  const output = folder.at('out.csv');
  const job = { input: { path: 'in.csv', dedupe: true, only_new: true }, parameters: { temperature: 0 } };
  const settings: Settings = { ...settingsFor(output, job), stateDir };
  const survey = {
    rows: 0,
    badRows: 0,
    sha256: 'same',
    bytes: 1,
    digests: { blockBytes: 1, bytes: Buffer.alloc(0) },
    columns: ['id', 'note'],
    format: csv,
  };

  const rowsOf = (notes: readonly string[]): Row[] =>
    notes.map((note, i) => {
      const fields = new Map([
        ['id', String(i + 1)],
        ['note', note],
      ]);
      return { number: i + 1, line: i + 2, fields, bytes: 10 };
    });

  /** Rows that the service was called for, by all processes. */
  let called: number[] = [];

  /** One process: continues the run and commits some rows at a time, as producer and collector do it. */
  async function live(notes: readonly string[], rowsInCommit: number): Promise<void> {
    const rows = rowsOf(notes);
    const plan = await planRows(settings, survey);
    const target = await findTarget(settings, NOW);
    const manifest = beginManifest(target, settings, { input: 'same' }, NOW);
    const input = { survey: { ...survey, rows: rows.length }, total: rows.length };
    const reuse = await Reuse.open({ settings, endpoints: [servedEndpoint()], input, manifest });
    if (reuse === null) throw new Error('the job reuses outcomes');
    try {
      const committer = await Committer.open(target, manifest, plan.header, process.stdout, notes.length);
      const looked = rows.slice(manifest.rows).map((row) => {
        const request = rowRequest(row, plan.requests);
        if (request.kind !== 'send') throw new Error('every row has a prompt');
        return { row, ...reuse.match(row, request.prompt, request.parameters) };
      });
      while (looked.length > 0) {
        const commit = looked.splice(0, rowsInCommit);
        const known = new Map<number, KnownRow>();
        for (const { row, source, keys } of commit) {
          if (source === null) called.push(row.number);
          const own = { outcome: answerTo(row), run: manifest.run };
          known.set(row.number, { ...(source === null ? own : reuse.take(source, known)), keys });
        }
        const records = commit.map(({ row }) => {
          const outcome = known.get(row.number)?.outcome;
          if (outcome === undefined) throw new Error('every row has an outcome');
          return plan.recordOf(row, outcome);
        });
        await committer.commit(records, () => reuse.keep(known));
      }
      await finish(committer, summaryOf(committer, output), { reuse });
    } finally {
      await reuse.close().catch(() => {});
    }
  }

  function answerTo(row: Row): CalledOutcome {
    const note = String(row.fields.get('note'));
    if (note === 'f') return { ...failed, attempts: 1 };
    if (note === 'b') return blockedPrompt;
    return { ...completed, completion: { ...completed.completion, text: `re ${note}` } };
  }

  /** The rows that a run has to call: the first of each question. */
  const firsts = (notes: readonly string[]): number[] =>
    notes.flatMap((note, i) => (notes.indexOf(note) === i ? [i + 1] : []));

  it('fault 42: ends with the records of a run that nobody disturbed, and the next run has nothing to call', async () => {
    const property = fc.asyncProperty(
      questions,
      fc.integer({ min: 1, max: 4 }),
      fc.array(crash, { maxLength: 5 }),
      async (notes, rowsInCommit, crashes) => {
        await folder.begin();
        called = [];
        await folder.outlived(
          crashes,
          () => live(notes, rowsInCommit),
          () => folder.isFinished('out.csv'),
        );
        expect([...new Set(called)].sort((a, b) => a - b)).toEqual(firsts(notes));
        const records = folder.text('out.csv').trimEnd().split('\n').slice(1);
        expect(records.map((record) => record.split(',').slice(0, 3).join(' '))).toEqual(
          notes.map((note, i) => `${i + 1} ${note} ${STATUS.get(note) ?? 'completed'}`),
        );
        // copied_from, and carried_from.
        expect(records.map((record) => record.split(',').slice(-2))).toEqual(
          notes.map((note, i) => {
            const first = notes.indexOf(note);
            return [first === i ? '' : String(first + 1), ''];
          }),
        );

        unlinkSync(output);
        called = [];
        await live(notes, rowsInCommit);
        expect(called).toEqual(firsts(notes).filter((row) => notes[row - 1] === 'f'));
        const left = folder.names.filter((name) => /^\d.*\.jsonl$/.test(name));
        // A process that died before its manifest was there leaves an empty file, which is swept away later.
        expect(left.filter((name) => folder.text(name) !== '')).toEqual([]);
      },
    );
    await folder.holds(property, { numRuns: 150, deaths: 120 });
  });
});
