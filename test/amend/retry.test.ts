import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SelectionFlags } from '../../src/amend/selection.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { changeSummary } from '../support/written.js';

const ROWS = 12;

let place: MemoryPlace;
let work: Workplace;
/** Rows that fail, as long as they are in it. */
let failing: Set<number>;
let said: (row: number) => string;
let confidence: (row: number) => number | null;
let onRow: (row: number) => Promise<void>;
beforeEach(() => {
  place = new MemoryPlace();
  place.script = script;
  work = place.work;
  failing = new Set([3, 7]);
  said = (row) => ` answer ${row}`;
  confidence = () => null;
  onRow = async () => {};
});
afterEach(() => work.remove());

const script: Script = async ({ prompt, count }) => {
  const row = Number(/\d+/.exec(prompt)?.[0]);
  await onRow(row);
  const message = `no ${row}, call ${count}`;
  if (failing.has(row)) return { status: 400, json: { error: { code: 'bad', message } } };
  return { json: completionBody({ text: said(row), prompt_tokens: row, confidence: confidence(row) }) };
};
const job = (more: object = {}) =>
  work.job({ input: { path: work.rows(ROWS) }, output: { path: 'out.csv' }, ...more });
const spaced = (text: string): string => text.replaceAll(/\s+/g, ' ');
const files = () => readdirSync(work.folder).filter((name) => name.startsWith('out'));

describe('promptmill retry', () => {
  let service: ScriptedService;
  beforeEach(async () => {
    service = await startScriptedService(script);
  });
  afterEach(() => service.close());

  const store = oneStore();
  const env = () => ({ PROMPTMILL_BASE_URL: service.url, ...store() });
  const call = (...args: string[]) => work.call(args, env());
  /** Runs a command that is killed with this call of this row in flight. */
  const killAt = async (at: { readonly row: number; readonly call: number }, ...args: string[]) => {
    let calls = 0;
    const end = new Promise<void>((release) => {
      const killed = work.start(args, env());
      onRow = async (row) => {
        if (row !== at.row || ++calls < at.call) return;
        killed.process.kill('SIGKILL');
        await killed.ended;
        onRow = async () => {};
        release();
      };
    });
    await end;
  };

  it('needs no address, no key and nothing of on_finish where no row is to be called', async () => {
    const hooks = { on_finish: { post: 'HOOK_URL' } };
    const run = await work.call(['run', job()], env());
    expect(run.code, run.stderr).toBe(1);
    job(hooks);
    const retried = await work.call(['retry', 'out.csv', '--status', 'skipped', '--json'], store());
    expect([retried.code, retried.stderr]).toEqual([0, expect.stringContaining('nothing was changed')]);
    expect(JSON.parse(retried.stdout)).toMatchObject({ rows: { failed: 2 } });
    const wanted = await work.call(['retry', 'out.csv'], store());
    expect([wanted.code, wanted.stderr]).toEqual([2, expect.stringContaining('HOOK_URL is not set')]);
  });

  it.each(['out.csv', 'out.jsonl'])(
    'calls the failed rows of %s again, and leaves every other byte',
    async (output) => {
      const prices = { prompt: 1, completion: 2 };
      const embedded = { PROMPTMILL_BASE_URL: service.url };
      const run = await work.call(['run', job({ output: { path: output }, prices })], embedded);
      expect(run.code, run.stderr).toBe(1);
      expect(run.stderr).toContain(`2 rows failed. Call them again with:\n  promptmill retry ${output}`);
      const before = work.read(output).split('\n');
      const first = work.json('out.summary.json');
      failing = new Set([7]);
      // It needs nothing of its run but the output, the summary and the job.
      rmSync(work.path('.promptmill'), { recursive: true });
      const calls = service.calls();
      const retried = await work.call(['retry', output, '--json'], embedded);
      expect(retried.code, retried.stderr).toBe(1);
      expect(retried.stderr).toContain(`retrying 2 of 12 rows of ${output} (--status failed)`);
      expect(service.calls() - calls).toBe(2);
      const after = work.read(output).split('\n');
      const row3 = output === 'out.csv' ? 3 : 2;
      const row7 = row3 + 4;
      expect(after.map((line, i) => line === before[i] || i)).toEqual(
        before.map((_, i) => (i === row3 || i === row7 ? i : true)),
      );
      expect(after[row3]).toContain('answer 3');
      if (output === 'out.jsonl')
        expect(work.lines(output).map(({ row }) => row)).toEqual(
          before.flatMap((_, i) => (i < ROWS ? [i + 1] : [])),
        );
      const summary = work.json('out.summary.json');
      expect(JSON.parse(retried.stdout)).toMatchObject({ run: summary['run'], retried: { rows: 2 } });
      expect(summary).toMatchObject({
        run: first['run'],
        rows: { total: ROWS, completed: ROWS - 1, failed: 1 },
        errors: { invalid_request: 1 },
        calls: { sent: ROWS + 2 },
        usage: { prompt_tokens: 78 - 7 },
        retried: { rows: 2 },
        started_at: first['started_at'],
      });
      expect(
        readdirSync(work.folder)
          .filter((name) => name.startsWith('out.'))
          .sort(),
      ).toEqual([output, 'out.summary.json'].sort());
    },
  );

  it('leaves an unfinished retry to its own command', async () => {
    await call('run', job());
    const before = work.read('out.csv');
    failing = new Set();
    await killAt({ row: 7, call: 1 }, 'retry', 'out.csv');
    expect(work.read('out.csv')).toBe(before);
    const run = await call('run', 'job.yaml');
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(
      'out.csv.run.json is an unfinished retry of out.csv\nGo on with it: promptmill retry out.csv --status failed',
    );
    const other = await call('retry', 'out.csv', '--invalid');
    expect(other.code).toBe(2);
    expect(spaced(other.stderr)).toContain(
      'out.csv.run.json is an unfinished retry of other rows Go on with it: promptmill retry out.csv --status failed',
    );
    writeFileSync(work.path('out.csv'), before.replace('note 1,', 'note x,'));
    const changed = await call('retry', 'out.csv');
    expect(changed.code).toBe(2);
    expect(changed.stderr).toContain('out.csv was changed since its retry began');
    writeFileSync(work.path('out.csv'), before);
    const again = await call('run', 'job.yaml', '--retry-failed');
    expect(again.code, again.stderr).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({ rows: { failed: 0 }, retried: { rows: 2 } });
    expect(files()).toEqual(['out.csv', 'out.summary.json']);
  });

  it('run --retry-failed finds the output that has a date or a run in its path', async () => {
    const path = job({ output: { path: 'out-{{run}}.csv' } });
    failing = new Set([3]);
    await killAt({ row: 3, call: 2 }, 'run', path, '--retry-failed');
    failing = new Set();
    const calls = service.calls();
    const again = await call('run', path, '--retry-failed');
    expect(again.code, again.stderr).toBe(0);
    expect(service.calls() - calls).toBe(1);
    expect(files()).toHaveLength(2);

    job({ output: { path: 'day-{{date}}.csv' } });
    failing = new Set([7]);
    await call('run', path);
    failing = new Set();
    const day = await call('run', path, '--retry-failed');
    expect(day.code, day.stderr).toBe(0);
    expect(service.calls() - calls).toBe(1 + ROWS + 1);
  });

  it('calls failed rows again whose records do not say why, where the summary does', async () => {
    const path = job({ output: { path: 'out.csv', columns: ['id', 'status', 'answer'] } });
    const run = await call('run', path);
    expect(run.stderr).toContain('promptmill retry out.csv');
    failing = new Set([7]);
    const retried = await call('run', path, '--retry-failed');
    expect(retried.code, retried.stderr).toBe(1);
    expect(work.json('out.summary.json')).toMatchObject({ errors: { invalid_request: 1 } });
  });

  it('a run that has finished stays so where its failed rows cannot be called again', async () => {
    const path = job({ output: { path: 'out.csv', columns: ['id', 'answer'] } });
    const run = await call('run', path, '--retry-failed', '--json');
    expect(run.code, run.stderr).toBe(1);
    expect(run.stderr).toContain('warning: the rows are not called again: out.csv has no status');
    expect(run.stderr).not.toContain('promptmill retry');
    expect(JSON.parse(run.stdout)).toMatchObject({ rows: { total: ROWS, failed: 2 } });
  });
});

describe('rows of a finished output that are called again', () => {
  it('says what changed of the job, and does nothing where there is no such row', async () => {
    failing = new Set([3]);
    await place.run(job());
    failing = new Set();
    const before = [work.read('out.csv'), work.read('out.summary.json')];
    const none = await place.retry('out.csv', { status: 'filtered' });
    expect(none.code, none.said).toBe(0);
    expect(none.said).toContain(
      'no row of out.csv is to be called again (--status filtered): nothing was changed',
    );
    expect(work.json('out.summary.json')).toMatchObject({ rows: { failed: 1 } });
    expect([work.read('out.csv'), work.read('out.summary.json')]).toEqual(before);
    job({ prompt: 'row {{ id }} and {{ note }}' });
    const retried = await place.retry('out.csv', { row: '5,3-4' });
    expect(retried.code, retried.said).toBe(0);
    expect(spaced(retried.said)).toContain(
      'retrying 3 of 12 rows of out.csv (--row 3-5) the job has changed since the output was made: ' +
        'prompt ("row {{ id }}" then, "row {{ id }} and {{ note }}" now)',
    );
    expect(work.json('out.summary.json')).toMatchObject({ rows: { completed: ROWS }, retried: { rows: 3 } });
    expect(place.machine.requests.at(-1)?.prompt).toContain(' and note ');
  });

  it('gives packed outputs their records, and copies their rows', async () => {
    const path = job({
      input: { path: work.write('in.csv', 'id,note\n1,a\n2,b\n3,b\n4,b\n'), dedupe: true },
      prompt: 'row {{ note }}',
      parameters: { temperature: 0 },
      output: { path: 'out.jsonl.gz' },
    });
    failing = new Set([Number.NaN]);
    await place.run(path);
    failing = new Set();
    const retried = await place.retry('out.jsonl.gz', { row: '2-4' });
    expect(retried.code, retried.said).toBe(1);
    const records = gunzipSync(readFileSync(work.path('out.jsonl.gz')))
      .toString()
      .trimEnd()
      .split('\n');
    expect(
      records
        .map((line) => JSON.parse(line))
        .map(({ row, status, copied_from }) => [row, status, copied_from]),
    ).toEqual([
      [1, 'failed', null],
      [2, 'completed', null],
      [3, 'completed', 2],
      [4, 'completed', 2],
    ]);
    expect(work.json('out.summary.json')).toMatchObject({ reused: { copied: 2, carried: 0 } });
  });

  it('run --retry-failed calls them again at once, and those of a finished output', async () => {
    let tries = 0;
    onRow = async (row) => {
      if (row === 3 && ++tries === 1) failing.delete(3);
    };
    failing = new Set([7]);
    const path = job();
    const first = await place.run(path, { retryFailed: true });
    expect(first.code, first.said).toBe(1);
    expect(first.said).toContain('1 row failed, and is called again');
    expect(work.json('out.summary.json')).toMatchObject({ rows: { failed: 1 }, calls: { sent: ROWS + 1 } });
    failing = new Set();
    const second = await place.run(path, { retryFailed: true });
    expect(second.code, second.said).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({
      rows: { failed: 0 },
      calls: { sent: ROWS + 2 },
      retried: { rows: 2 },
    });
  });

  it('leaves the summary of an output that was changed meanwhile', async () => {
    await place.run(job());
    const before = work.read('out.summary.json');
    failing = new Set();
    onRow = async (row) => {
      if (row === 7) work.write('out.csv', work.read('out.csv').replace(/^12,.*\n/m, ''));
    };
    const retried = await place.retry('out.csv', { row: '7,12' });
    expect(retried.code, retried.said).toBe(3);
    expect(spaced(retried.said)).toContain('out.csv was changed while the run went on');
    expect(work.read('out.summary.json')).toBe(before);
  });

  it('keeps the threshold of answer.abstain, and what people have filled in', async () => {
    const rows = Array.from({ length: 40 }, (_, i) => `${i + 1},${i < 36 ? 'yes' : 'no'}\n`);
    work.write('in.csv', `id,right\n${rows.join('')}`);
    let sure = (row: number): number => (row > 36 ? 0.6 : 0.9);
    confidence = (row) => sure(row);
    failing = new Set();
    said = () => ' yes';
    const answer = {
      labels: ['yes', 'no'],
      confidence: 'logprobs',
      gold: 'right',
      abstain: { accuracy: 0.95 },
    };
    const run = await place.run(job({ input: { path: 'in.csv' }, answer }));
    expect(run.code, run.said).toBe(0);
    const { threshold } = Object(Object(work.json('out.summary.json')['scores'])['abstention']);
    expect(threshold).toBe(0.9);
    sure = (row) => (row === 37 ? 0.95 : 0.7);
    said = (row) => (row === 37 ? ' no' : ' yes');
    const retried = await place.retry('out.csv', { abstained: true });
    expect(retried.code, retried.said).toBe(0);
    expect(
      work
        .records('out.csv')
        .slice(35)
        .map(({ answer, abstained }) => `${answer} ${abstained}`),
    ).toEqual(['yes false', 'no false', ' true', ' true', ' true']);
    expect(work.json('out.summary.json')).toMatchObject({
      answers: { yes: 36, no: 1, '(abstained)': 3 },
      answers_abstained: 3,
      scores: { answered_accuracy: 1, abstention: { threshold: 0.9, coverage: 37 / 40 } },
    });
    expect(work.records('out.review.csv').map(({ row }) => row)).toEqual(['38', '39', '40']);
    const filled = work.read('out.review.csv').replace(/^38,38,no,,/m, '38,38,no,no,');
    work.write('out.review.csv', filled);
    expect(filled).toContain('38,38,no,no,');
    sure = () => 0.99;
    const all = await place.retry('out.csv', { abstained: true });
    expect(all.code, all.said).toBe(0);
    expect(work.read('out.review.csv')).toBe(filled);
  });

  it('refuses what it cannot mend, and changes nothing', async () => {
    await place.run(job());
    const kept = ['rows.csv', 'job.yaml', 'out.csv', 'out.summary.json'];
    const first = kept.map((name) => [name, work.read(name)] as const);
    const all = () => files().map((name) => [name, work.read(name)]);
    const calls = place.machine.calls();
    const cases: readonly (readonly [
      what: string,
      harm: () => void,
      options: SelectionFlags,
      message: string,
    ])[] = [
      [
        'a changed input',
        () => work.write('rows.csv', 'id,note\n1,x\n'),
        {},
        'rows.csv is not the input that out.csv was made of',
      ],
      [
        'a grown input',
        () => appendFileSync(work.path('rows.csv'), '13,more\n'),
        {},
        'promptmill run job.yaml --extend; or name the file as it was with --input FILE',
      ],
      ['an input that is gone', () => rmSync(work.path('rows.csv')), {}, 'rows.csv does not exist'],
      ['an output that is gone', () => rmSync(work.path('out.csv')), {}, 'out.csv does not exist'],
      ['no summary', () => rmSync(work.path('out.summary.json')), {}, 'out.summary.json does not exist'],
      [
        'a summary of another output',
        () => changeSummary(work.path('out.summary.json'), { output: 'x.csv' }),
        {},
        'is the summary of x.csv, and not of out.csv',
      ],
      [
        'a summary that was edited',
        () =>
          work.write('out.summary.json', work.read('out.summary.json').replace('"failed": 2', '"failed": 3')),
        {},
        'out.summary.json was edited: it is not as Promptmill wrote it',
      ],
      [
        'a record less',
        () => work.write('out.csv', work.read('out.csv').replace(/^12,.*\n/m, '')),
        {},
        'out.csv is not as Promptmill wrote it: it has 1 row fewer than were written',
      ],
      [
        'a record that was edited',
        () => work.write('out.csv', work.read('out.csv').replace(',failed,', ',')),
        {},
        'out.csv is not as Promptmill wrote it: row ',
      ],
      [
        'another header',
        () => work.write('out.csv', work.read('out.csv').replace('note', 'remark')),
        {},
        'its first line, with the names of the columns, is another',
      ],
      [
        'other columns',
        () => job({ answer: { labels: ['a', 'b'], on_invalid: { ask_again: 1 } } }),
        {},
        'it writes records with answer_source',
      ],
      ['a row behind the last', () => {}, { row: '13' }, '--row 13: out.csv has 12 rows'],
      [
        'no number of a row',
        () => {},
        { row: '3-x' },
        '--row takes numbers of rows, from 1, and ranges of them, such as 17,20-30, got "3-x"',
      ],
      [
        'no status',
        () => {},
        { status: 'failled' },
        '--status takes completed, filtered, failed or skipped, or several with commas between them, got "failled"',
      ],
      [
        'rows by a column that is not there',
        () => {},
        { abstained: true },
        'out.csv has no abstained, by which rows are chosen',
      ],
    ];
    for (const [what, harm, options, message] of cases) {
      harm();
      const before = all();
      const refused = await place.retry('out.csv', options);
      expect(refused.code, `${what}: ${refused.said}`).toBe(2);
      expect(spaced(refused.said), what).toContain(message);
      expect(all(), what).toEqual(before);
      for (const [name, text] of first) work.write(name, text);
    }
    expect(place.machine.calls()).toBe(calls);
  });

  it('needs no more columns than status and error_code for rows that failed', async () => {
    const path = job({ output: { path: 'out.csv', columns: ['id', 'status', 'text', 'error_code'] } });
    await place.run(path);
    failing = new Set();
    const refused = await place.retry('out.csv', { row: '1' });
    expect(refused.code).toBe(2);
    expect(spaced(refused.said)).toContain('out.csv has no finish_reason, prompt_tokens,');
    const retried = await place.retry('out.csv');
    expect(retried.code, retried.said).toBe(0);
    expect(work.records('out.csv')[6]).toEqual({
      id: '7',
      status: 'completed',
      text: 'answer 7',
      error_code: '',
    });
  });

  it('takes columns of the input for no columns of a result', async () => {
    const lines = Array.from({ length: 4 }, (_, i) => `${i + 1},x,${9 - i},true\n`);
    failing = new Set([2]);
    await place.run(
      job({ input: { path: work.write('in.csv', `id,input,row,abstained\n${lines.join('')}`) } }),
    );
    failing = new Set();
    const none = await place.retry('out.csv', { abstained: true });
    expect(none.said).toContain('out.csv has no abstained, by which rows are chosen');
    const retried = await place.retry('out.csv');
    expect(retried.code, retried.said).toBe(0);
  });

  it('counts what the model had said where people have given other answers since', async () => {
    failing = new Set();
    confidence = (row) => (row === 2 ? 0.6 : 0.9);
    said = (row) => (row === 3 ? ' maybe' : ' yes');
    const answer = {
      labels: ['yes', 'no'],
      ...{ confidence: 'logprobs', abstain_below: 0.7, require: { valid: 0 } },
    };
    await place.run(job({ input: { path: work.write('in.csv', 'id\n1\n2\n3\n4\n') }, answer }));
    const { answers } = work.json('out.summary.json');
    expect(answers).toMatchObject({ yes: 2, '(abstained)': 1 });
    work.write('given.csv', 'row,answer\n1,no\n2,yes\n3,yes\n');
    const merged = await work.call(['merge-review', 'out.csv', 'given.csv']);
    expect(merged.code, merged.stderr).toBe(0);
    const retried = await place.retry('out.csv', { row: '1-4' });
    expect(retried.code, retried.said).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({ answers_invalid: 1 });
    expect(work.json('out.summary.json')['answers']).toEqual(answers);
  });

  it('keeps what the run found of its last run, what it took over and what it cost', async () => {
    const input = { path: work.rows(ROWS), only_new: true, id: 'id' };
    await place.run(job({ input, prices: { prompt: 1, completion: 1 } }));
    const drift = { against: 'x', output: 'x.csv', rows: 10, changed: 5, share: 0.5, alarm: 0.1 };
    const { cost, details } = work.json('out.summary.json');
    changeSummary(work.path('out.summary.json'), { details: { ...Object(details), steps: { drift } } });
    failing = new Set();
    job({ input });
    const retried = await place.retry('out.csv');
    expect(retried.code, retried.said).toBe(4);
    const { missed, ...summary } = work.json('out.summary.json');
    expect(summary).toMatchObject({ cost, drift, reused: { copied: 0, carried: 0 } });
    expect(missed).toContain('drifted: 50.0 % of 10 rows (5) have another answer');
  });
});
