import { createHash } from 'node:crypto';
import { appendFileSync, closeSync, openSync, renameSync, writeSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';

/** Several processes one after the other. */
const TIMEOUT = 600_000;

/** Rows of 60 kB: more than the window holds, so that the last of them are read only once the first is answered. */
const ROWS = 700;
const FILLING = 'x'.repeat(60_000);
/** Only these are sent; the rest is skipped, so that a test makes few calls. */
const SENT = new Set([1, 2, 3, 690, 691, 700]);
const LIMIT = 695;

const noteOf = (row: number): string => (SENT.has(row) ? `note ${row}` : '');
const original = `id,note,filling\n${Array.from(
  { length: ROWS },
  (_, i) => `${i + 1},${noteOf(i + 1)},${FILLING}\n`,
).join('')}`;

let work: Workplace;
let service: ScriptedService;
let onFirstCall: () => void = () => {};

beforeAll(async () => {
  work = new Workplace();
  service = await startScriptedService(({ total }) => {
    if (total === 1) onFirstCall();
    return {};
  });
});
afterAll(async () => {
  await service.close();
  work.remove();
});

/** Where a row that is read late has its note. */
const AT = original.indexOf('note 690');

function overwrite(text: string): void {
  const file = openSync(work.path('rows.csv'), 'r+');
  writeSync(file, text, AT);
  closeSync(file);
}

const ids = (name: string): number[] => work.records(name).map(({ id }) => Number(id));
const upTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);
const prompts = (): string[] => service.requests.map(({ prompt }) => prompt).sort();

describeOn('embedded', 'an input that is edited in place', (store) => {
  it(
    'fault 61: nothing of the edit is sent or written, with and without --limit, and it goes on once it is put back',
    async ({ task }) => {
      for (const limit of [[], ['--limit', String(LIMIT)]]) {
        const name = limit.length === 0 ? 'whole' : 'limited';
        await service.close();
        service = await startScriptedService(({ total }) => {
          // While the first answer is awaited, the window is as full as it can be.
          if (total === 1) overwrite('evil 690');
          return {};
        });
        const output = `${name}.csv`;
        work.write('rows.csv', original);
        const job = work.job({
          input: { path: 'rows.csv', require: ['note'] },
          prompt: '{{ id }}: {{ note }}',
          output: { path: output, columns: ['id', 'note', 'status'] },
        });
        const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
        const stopped = await work.call(['run', job, ...limit], env);
        expect(stopped.code, stopped.stderr).toBe(3);
        expect(stopped.stderr.replace(/\s+/g, ' ')).toMatch(
          /rows\.csv was changed while the run went on: bytes \d+ to \d+ are not/,
        );
        expect(prompts()).toEqual(['1: note 1', '2: note 2', '3: note 3']);
        const partial = ids(`${output}.part`);
        expect(partial).toEqual(upTo(partial.length));
        expect(work.read(`${output}.part`)).not.toContain('evil');

        const edited = await work.call(['run', job, ...limit], env);
        expect(edited.code, edited.stderr).toBe(2);

        overwrite('note 690');
        const { code, stderr } = await work.call(['run', job, ...limit], env);
        expect(code, stderr).toBe(0);
        const last = limit.length === 0 ? ROWS : LIMIT;
        expect(work.records(output).map(({ id, note }) => [Number(id), note])).toEqual(
          upTo(last).map((row) => [row, noteOf(row)]),
        );
        const sent = [...SENT].filter((row) => row <= last);
        expect(prompts()).toEqual(sent.map((row) => `${row}: note ${row}`).sort());
        const { input } = work.json(`${name}.summary.json`) as { input: { sha256: string } };
        expect(input.sha256).toBe(createHash('sha256').update(original).digest('hex'));
        task.meta.fault = { rows: last, calls: service.requests.length };
      }
    },
    TIMEOUT,
  );
});

describe('while a run on embedded goes on', () => {
  beforeEach(async () => {
    await service.close();
    service = await startScriptedService(({ total }) => {
      if (total === 1) onFirstCall();
      return {};
    });
    work.write('rows.csv', original);
  });

  const run = (output: string) =>
    work.call(
      [
        'run',
        work.job({
          input: { path: 'rows.csv', require: ['note'] },
          prompt: '{{ id }}: {{ note }}',
          output: { path: output, columns: ['id', 'note', 'status'] },
        }),
      ],
      { PROMPTMILL_BASE_URL: service.url },
    );

  const expectOriginal = (output: string): void => {
    expect(work.records(output).map(({ id, note }) => [Number(id), note])).toEqual(
      upTo(ROWS).map((row) => [row, noteOf(row)]),
    );
    expect(prompts()).toEqual([...SENT].map((row) => `${row}: note ${row}`).sort());
  };

  it('fault 61: rows are added to its input: the run keeps to those it began with, and says so', async ({
    task,
  }) => {
    onFirstCall = () => appendFileSync(work.path('rows.csv'), '701,added,\n');
    const { code, stderr } = await run('added.csv');
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/the input has grown from \d+ to \d+ bytes/);
    expectOriginal('added.csv');
    task.meta.fault = { rows: ROWS, calls: service.requests.length };
  });

  it('fault 61: its input is replaced by rename: the run goes on with the file that it began with', async ({
    task,
  }) => {
    work.write('other.csv', original.replaceAll('note ', 'evil '));
    onFirstCall = () => renameSync(work.path('other.csv'), work.path('rows.csv'));
    const { code, stderr } = await run('renamed.csv');
    expect(code, stderr).toBe(0);
    expectOriginal('renamed.csv');
    task.meta.fault = { rows: ROWS, calls: service.requests.length };
  });
});
