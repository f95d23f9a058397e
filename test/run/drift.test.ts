import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { driftMiss } from '../../src/account/drift.js';
import type { RunFlags } from '../../src/config/settings.js';
import { Halt } from '../../src/core/halt.js';
import type { Outcome } from '../../src/core/model.js';
import type { Committer } from '../../src/resume/committer.js';
import { driftStep } from '../../src/run/drift.js';
import { planRows } from '../../src/run/plan.js';
import { csv } from '../../src/source/csv.js';
import {
  commitTo,
  finish as finishRun,
  finishingOf,
  openCommitter,
  rowsOf,
  settingsFor,
  summaryOf,
} from '../resume/run-files.js';
import { MemoryPlace } from '../support/memory-place.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

describe('drift', () => {
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
  });
  afterEach(() => place.work.remove());
  const spaced = (text: string): string => text.replaceAll(/\s+/g, ' ');

  /** The answer to a row, by its id. */
  let answer: (id: string) => string;
  const say = (answers: (id: string) => string): void => {
    answer = answers;
    place.script = ({ prompt }) => {
      const text = answer(prompt.replace('row ', ''));
      if (text === '') return { status: 400, json: { error: { code: 'bad', message: 'bad' } } };
      return { json: completionBody({ text }) };
    };
  };

  const JOB = {
    input: { path: 'rows.csv', id: 'id' },
    answer: { labels: ['yes', 'no'] },
    output: { path: 'out-{{run}}.csv' },
    drift: { against: 'last', alarm: 0.1 },
    limits: { concurrency: 4 },
  };
  const store = oneStore();
  const written = (job: object): string => place.work.job({ ...JOB, ...job });

  it('ends a run with 4 when more answers have changed than drift.alarm, and on_finish is told', async () => {
    const service = await startScriptedService((request) => place.script(request));
    const run = async (job: object) => {
      const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
      const { code, stdout, stderr } = await place.work.call(['run', written(job), '--json'], env);
      return { code, stderr: spaced(stderr), summary: JSON.parse(stdout) };
    };
    place.work.rows(20);
    say(() => 'yes');
    const on_finish = { command: ['sh', '-c', 'echo "$PROMPTMILL_EXIT_CODE" > told; cat >> told'] };
    const first = await run({ on_finish });
    expect(first).toMatchObject({ code: 0, summary: { missed: null } });
    expect(first.summary).not.toHaveProperty('drift');
    expect(first.stderr).toContain('no drift yet: the job has no last run');

    say((id) => (Number(id) <= 5 ? 'no' : Number(id) <= 7 ? '' : 'yes'));
    const second = await run({ on_finish });
    await service.close();
    expect(second.code).toBe(4);
    const against = { against: first.summary.run, output: first.summary.output };
    expect(second.summary.drift).toEqual({ ...against, rows: 18, changed: 5, share: 5 / 18, alarm: 0.1 });
    expect(second.stderr).toContain('drift 27.8 % of 18 rows (5) have another answer than in run');
    expect(second.summary.missed).toBe(
      `drifted: 27.8 % of 18 rows (5) have another answer than in run ${first.summary.run}, and drift.alarm is 10 %. ` +
        `What changed: promptmill compare ${first.summary.output} ${second.summary.output} --by id`,
    );
    expect(place.work.read('told')).toMatch(/^4\n\{.*"drift":\{"against":/);
    const compared = await place.work.call(
      ['compare', first.summary.output, second.summary.output, '--by', 'id', '--json'],
      {},
    );
    expect(JSON.parse(compared.stdout)).toMatchObject({ rows: 20, changed: 7, answered: { changed: 5 } });
  });

  it('finds rows by input.id in another input, of the output that the run replaces, and misses both', async () => {
    place.work.rows(12);
    say(() => 'yes');
    const output = { path: 'out.csv.gz' };
    const first = await place.run(written({ output }));
    place.work.write('rows.csv', 'id,note\n13,x\n12,x\n11,x\n10,x\n1,x\n');
    say((id) => (id === '1' ? 'no' : id === '10' ? 'perhaps' : 'yes'));
    const require = { valid: 0.9 };
    const again = { output, answer: { ...JOB.answer, require } };
    const second = await place.run(written(again), { overwrite: true });
    expect(second.code).toBe(4);
    expect(second.summary?.drift).toMatchObject({
      against: first.summary?.run,
      rows: 4,
      changed: 2,
      share: 0.5,
    });
    expect(second.summary?.missed).toMatch(
      /^below_require: 80\.0 % .* Also drifted: 50\.0 % of 4 rows \(2\).* promptmill compare out.measure.csv.gz out.csv.gz --by id$/,
    );
    const compared = await place.work.call([
      'compare',
      'out.measure.csv.gz',
      'out.csv.gz',
      '--by',
      'id',
      '--json',
    ]);
    expect(JSON.parse(compared.stdout)).toMatchObject({ rows: 4, changed: 2 });
  });

  it('is none of a check without an id where the input has changed: it says what the run would say', async () => {
    place.work.rows(5);
    const { id: _, ...input } = JOB.input;
    say(() => 'yes');
    await place.run(written({ input }));
    place.work.rows(6);
    const { code, stderr } = await place.work.call(['check', written({ input })]);
    expect(code, stderr).toBe(2);
    expect(spaced(stderr)).toMatch(
      /drift: rows.csv is not the input of the last run \(out-.*\.csv\).*input\.id/,
    );
  });
});

it('misses what is asked above the alarm, and not at it', () => {
  const drift = { against: 'r1', output: 'a b.csv', rows: 10, changed: 1, share: 0.1, alarm: 0.1 };
  expect(driftMiss(drift, 'b.csv', null)).toBeNull();
  expect(driftMiss({ ...drift, changed: 0, rows: 0, share: null }, 'b.csv', null)).toBeNull();
  expect(driftMiss({ ...drift, changed: 2, share: 0.2 }, 'b.csv', 'my id')).toEqual({
    code: 'drifted',
    message:
      '20.0 % of 10 rows (2) have another answer than in run r1, and drift.alarm is 10 %. ' +
      "What changed: promptmill compare 'a b.csv' b.csv --by 'my id'",
  });
});

describe('the drift of a run', () => {
  let folder: string;
  let said: string[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-drift-'));
    said = [];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const DRIFT = { answer: { labels: ['yes', 'no'] }, drift: { alarm: 0.1 } };
  const settings = (job: object = {}, flags: RunFlags = {}) =>
    settingsFor(join(folder, 'out.csv'), { ...DRIFT, ...job }, { overwrite: true, ...flags });
  const context = { say: (line: string) => void said.push(line), halt: new Halt() };
  const INPUT = { sha256: 'same', rows: 3 };

  /** A run that has all of its rows, and its drift. */
  async function whole(answers: readonly string[], of = settings(), here = context) {
    const completed = answers.map((text) => ({ note: 'x', outcome: outcomeOf(text) }));
    const rows = await rowsOf(of, completed);
    const { committer, target } = await openCommitter(of, rows);
    await commitTo(committer, rows, rows.records.length);
    await driftStep.run(finishingOf(committer, of, rows.format, { ...INPUT, rows: answers.length }, here));
    return { committer, rows, target };
  }

  async function finish(answers: readonly string[], of = settings()): Promise<Committer> {
    const { committer, target } = await whole(answers, of);
    await finishRun(committer, summaryOf(committer, target.files.output));
    return committer;
  }

  it('goes by the number of a row without input.id, and is known to the next execution, which does not look again', async () => {
    const first = await finish(['yes', 'no', 'yes']);
    expect(said).toEqual([expect.stringMatching(/^no drift yet: the job has no last run/)]);
    const { committer, rows } = await whole(['yes', 'yes', 'yes']);
    const found = { against: first.manifest.run, rows: 3, changed: 1, share: 1 / 3, alarm: 0.1 };
    expect(committer.manifest.steps.drift).toMatchObject(found);
    // Killed when the summary of the last run was replaced already.
    writeFileSync(join(folder, 'out.summary.json'), JSON.stringify(summaryOf(committer, 'out.csv')));
    await committer.close();
    const next = (await openCommitter(settings(), rows)).committer;
    await driftStep.run(finishingOf(next, settings(), rows.format, INPUT, context));
    expect(next.manifest.steps.drift).toMatchObject(found);
    expect(said).toHaveLength(1);
    await next.close();
  });

  it('is a warning where the last output was edited, or is of another input that has no id', async () => {
    await finish(['yes', 'no', 'yes']);
    const path = join(folder, 'out.csv');
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace('completed', 'done'));
    const { committer, rows } = await whole(['yes', 'yes', 'yes']);
    expect(committer.manifest.steps).not.toHaveProperty('drift');
    expect(said.at(-1)).toMatch(/^warning: no drift: .*out.csv, row 1, is not as a run wrote it/);
    await committer.close();
    writeFileSync(path, text);
    await driftStep.run(
      finishingOf(committer, settings(), rows.format, { sha256: 'other', rows: 3 }, context),
    );
    expect(said.at(-1)).toMatch(
      /^warning: no drift: .*out.csv is of another input, and the job has no input.id/,
    );
  });

  it('is a warning where the last output is cut off, or cannot be read', async () => {
    const path = join(folder, 'out.jsonl');
    const of = settingsFor(path, DRIFT, { overwrite: true });
    await finish(['yes', 'no', 'yes'], of);
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.slice(0, text.lastIndexOf('yes') + 2));
    const { committer, rows } = await whole(['yes', 'yes', 'yes'], of);
    expect(said.at(-1)).toMatch(/^warning: no drift: .*out.jsonl, row 3, is not as a run wrote it/);
    rmSync(path);
    mkdirSync(path);
    await driftStep.run(finishingOf(committer, of, rows.format, INPUT, context));
    expect(said.at(-1)).toMatch(/^warning: no drift: cannot read .*out.jsonl: EISDIR/);
    expect(committer.manifest.steps).not.toHaveProperty('drift');
    await committer.close();
  });

  it('is left to the next execution where the run is halted meanwhile', async () => {
    await finish(['yes', 'no', 'yes']);
    const halt = new Halt();
    halt.request({ kind: 'signal', signal: 'SIGINT' });
    const { committer, rows } = await whole(['yes', 'yes', 'yes'], settings(), { ...context, halt });
    expect(committer.manifest.steps).not.toHaveProperty('drift');
    await driftStep.run(finishingOf(committer, settings(), rows.format, INPUT, context));
    expect(committer.manifest.steps.drift).toMatchObject({ rows: 3, changed: 1 });
    await committer.close();
  });

  it('is that of the answers that stay, in an output that is packed', async () => {
    const of = settingsFor(
      join(folder, 'out.csv.gz'),
      { ...DRIFT, input: { path: 'in.csv', id: 'id' } },
      { overwrite: true },
    );
    await finish(['yes', 'no', 'perhaps'], of);
    const { committer } = await whole(['yes', 'yes', 'no'], of);
    expect(committer.manifest.steps.drift).toMatchObject({ rows: 3, changed: 2 });
    await committer.close();
  });

  it.each([
    [
      { output: { path: 'x.csv', columns: ['id', 'text'] } },
      {},
      /output.columns leaves out status, answer, which drift needs/,
    ],
    [
      { input: { path: 'in.csv', id: 'id' }, output: { columns: ['status', 'answer'] } },
      {},
      /leaves out id, which drift/,
    ],
    [{ input: { path: 'in.csv', id: 'ID' } }, {}, /input.id names "ID", but in.csv has no such column/],
    [{}, { output: '-' }, /standard output leaves none/],
  ])('is refused before anything is sent: %j %j', async (job, flags, message) => {
    const survey = {
      ...{ format: csv, rows: 3, badRows: 0, sha256: 'same', bytes: 1, columns: ['id', 'note'] },
      digests: { blockBytes: 1, bytes: Buffer.alloc(0) },
    };
    const of = settings(job, flags);
    const { format } = await planRows(of, survey);
    expect(() => driftStep.check?.(of, survey, format)).toThrow(message);
    expect(() => driftStep.check?.({ ...of, drift: null }, survey, format)).not.toThrow();
  });
});

function outcomeOf(text: string): Outcome {
  const completion = { text, finish_reason: 'stop', usage: null, model: null, id: null, created: null };
  return {
    status: 'completed',
    completion,
    filters: { prompt: null, completion: null },
    attempts: 1,
    latency_ms: 1,
  };
}
