import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { parse } from 'csv-parse/sync';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compareDocument } from '../../src/compare/compare-document.js';
import { type ComparePage, compareOutputs } from '../../src/compare/compare-outputs.js';
import { textDifference } from '../../src/compare/differences.js';
import { Matching } from '../../src/compare/matching.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import { outputFormatOf } from '../../src/output/format.js';
import { type OutputRecord, readOutput } from '../../src/output/reader.js';
import { renderHtml } from '../../src/render/html.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { outputFiles } from '../../src/resume/output-files.js';
import { Outputs } from './outputs.js';

let files: Outputs;
beforeEach(() => {
  files = new Outputs();
});
afterEach(() => files.remove());

type Rows = Parameters<Outputs['write']>[1];

const BEFORE: Rows = [
  ['r1', 'good'],
  ['r2', 'bad'],
  ['r3', 'fair'],
  ['r4', 'who knows'],
  ['r5', 'failed!'],
  ['r6', 'skipped!'],
];
const AFTER: Rows = [
  ['r1', 'good'],
  ['r2', 'fair'],
  ['r3', 'fair'],
  ['r4', 'good'],
  ['r5', 'filtered!'],
  ['r6', 'skipped!'],
];
const MIXED = [
  ['a.csv', 'b.csv'],
  ['a.jsonl', 'b.csv'],
  ['a.csv.gz', 'b.jsonl.gz'],
] as const;

describe('compare', () => {
  it('says in a sentence that an output is cut off, or cannot be read', async () => {
    const [a, b] = [files.write('a.jsonl', BEFORE), files.write('b.jsonl', AFTER)];
    const text = readFileSync(b, 'utf8');
    writeFileSync(b, text.slice(0, text.lastIndexOf('skipped') + 3));
    const cut = { code: 'output_edited', message: expect.stringContaining('b.jsonl, row 6, is not as') };
    await expect(compareOutputs(a, b)).rejects.toMatchObject(cut);
  });

  it('hears that it is to end while it remembers rows that are in another order', async () => {
    const format = outputFormatOf('a.jsonl');
    const leave = new AbortController();
    const record = (id: string) =>
      readOutput({ name: id, format, bytes: () => Readable.from([Buffer.from(`{"id":"${id}"}\n`)]) });
    async function* many() {
      yield* record('1');
      leave.abort();
      yield* record('2');
      throw new Error('it was read to its end');
    }
    const idOf = (record: OutputRecord): string => String(record.get('id'));
    const sides = [
      { output: { name: 'a', format }, records: many(), idOf },
      { output: { name: 'b', format }, records: record('3'), idOf },
    ] as const;
    const matching = new Matching(...sides, async () => '', leave.signal);
    const matches = matching.matches();
    expect((await matches.next()).value).toEqual([]);
    await expect(matches.next()).rejects.toThrow(/aborted/);
  });

  it('writes a page, in which what rows and models say is text', async () => {
    const hostile = '<img src=x onerror=alert(1)></script>';
    const a = files.write('a.csv', BEFORE);
    const b = files.write('b.csv', [['r1', hostile], ...AFTER.slice(1)]);
    const page: ComparePage = {
      path: files.path('page.html'),
      render: (report, changed) => renderHtml(compareDocument(report, changed)),
    };
    const { changed } = await compareOutputs(a, b, { page });
    const written = readFileSync(page.path, 'utf8');
    expect(changed).toBe(4);
    expect(written).toContain('&lt;img src=x onerror=alert(1)&gt;&lt;/script&gt;');
    expect(written).not.toContain('<img');
    expect(written).toContain('4 rows are completed or filtered in both; 25.0 % of those agree');
    expect(written).toContain(
      '6 in both, matched by row number; 2 failed or skipped in one of them, or in both',
    );
    expect(written).toContain('--gold FILE|COLUMN');
    // What a row is called where a phone shows no heads.
    expect(written.split('data-label="row"')).toHaveLength(changed + 1);
    expect(written.split('data-label="answer b"')).toHaveLength(changed + 1);
    await expect(compareOutputs(a, b, { page })).rejects.toMatchObject({ code: 'output_exists' });
    await expect(compareOutputs(a, b, { page: { ...page, path: b } })).rejects.toMatchObject({
      code: 'bad_output',
    });
  });

  it.each(MIXED)('counts what became of the answers, from %s to %s', async (nameA, nameB) => {
    const report = await compareOutputs(files.write(nameA, BEFORE), files.write(nameB, AFTER));
    expect(report).toMatchObject({
      ...{ rows: 6, changed: 3, agreement: 0.5, only_in_a: 0, only_in_b: 0, by: null },
      transitions: {
        ...{ bad: { fair: 1 }, fair: { fair: 1 }, good: { good: 1 } },
        ...{ '(failed)': { '(filtered)': 1 }, '(invalid)': { good: 1 }, '(skipped)': { '(skipped)': 1 } },
      },
      answered: { rows: 4, changed: 2, agreement: 0.5 },
      parts: null,
      cost: { a: 0.028, b: 0.028 },
      tokens: { a: { total_tokens: 24 }, b: { total_tokens: 24 } },
      latency_ms: { a: { p50: 20 } },
      a: { rows: 6, job: 'reviews' },
    });
    expect(Object.keys(report).slice(0, 9)).toEqual(
      'rows agreement kappa transitions changed only_in_a only_in_b tokens cost'.split(' '),
    );
    expect(report.kappa).toBeCloseTo((6 * 3 - 5) / (36 - 5), 12);
  });

  it.each(MIXED)('finds rows by their id in any order, from %s to %s', async (nameA, nameB) => {
    const a = files.write(nameA, [...BEFORE, ['only a', 'good'], ['x\ny,"z"', 'bad']]);
    const shuffled = [5, 1, 0, 3, 2, 4].flatMap((i) => AFTER[i] ?? []);
    const again: Rows = [0, 1, 2, 3, 4, 5].map((i) => [String(shuffled[2 * i]), String(shuffled[2 * i + 1])]);
    const b = files.write(nameB, [...again, ['x\ny,"z"', 'good'], ['only b', 'good']], { input: 'other' });
    const report = await compareOutputs(a, b, { by: 'id' });
    expect(report).toMatchObject({ rows: 7, changed: 4, only_in_a: 1, only_in_b: 1, by: 'id' });
    expect(report.transitions).toMatchObject({ bad: { fair: 1, good: 1 }, '(failed)': { '(filtered)': 1 } });
  });

  it('goes on from where the order differs, and to the end of the longer one', async () => {
    const many = Array.from({ length: 300 }, (_, i): readonly [string, string] => [`r${i}`, 'good']);
    const a = files.write('a.csv', many);
    const moved = [
      ...many.slice(0, 100),
      ...many.slice(200),
      ['new', 'bad'] as const,
      ...many.slice(100, 200),
    ];
    const b = files.write('b.csv', moved, { input: 'other' });
    expect(await compareOutputs(a, b, { by: 'id' })).toMatchObject({
      rows: 300,
      changed: 0,
      only_in_b: 1,
      only_in_a: 0,
    });
    const first = files.write('first.csv', many.slice(0, 50));
    expect(await compareOutputs(a, first, { by: 'id' })).toMatchObject({
      rows: 50,
      only_in_a: 250,
      only_in_b: 0,
    });
    expect(await compareOutputs(first, a, { by: 'id' })).toMatchObject({
      rows: 50,
      only_in_a: 0,
      only_in_b: 250,
    });
  });

  it('does without summaries: tokens and latency come from the records', async () => {
    const report = await compareOutputs(
      files.write('a.csv', BEFORE, { summary: false }),
      files.write('b.jsonl', AFTER, { summary: false }),
    );
    expect(report).toMatchObject({
      ...{ rows: 6, changed: 3, cost: { a: null, b: null }, verdict: null },
      tokens: { a: { prompt_tokens: 20 }, b: { prompt_tokens: 20 } },
      latency_ms: { a: { p50: 20 }, b: { max: 20 } },
      a: { job: null, run: null },
    });
  });

  it('compares JSON by its values and each of its properties, and several labels in any order', async () => {
    const schema = {
      type: 'object',
      properties: {
        city: { type: 'string' },
        n: { type: 'number' },
        status: { type: 'string' },
        tags: { type: 'array' },
      },
    };
    const answer: AnswerSpec = { kind: 'json', schema };
    const a = files.write(
      'a.csv',
      [
        ['1', '{"city": "Rom", "n": 1, "status": "x", "tags": [{"b": 1, "a": 2}]}'],
        ['2', '{"city": "Bern", "n": 2}'],
        ['3', 'none'],
      ],
      { answer },
    );
    const b = files.write(
      'b.jsonl',
      [
        ['1', '{"tags": [{"a": 2, "b": 1}], "n": 1.0, "status": "x", "city": "Rom"}'],
        ['2', '{"city": "Berne", "n": 2}'],
        ['3', '{"n": 3}'],
      ],
      { answer },
    );
    const report = await compareOutputs(a, b);
    expect(report).toMatchObject({
      rows: 3,
      changed: 2,
      transitions: { valid: { valid: 2 }, '(invalid)': { valid: 1 } },
    });
    expect(report.parts).toMatchObject({
      city: { rows: 2, changed: 1, transitions: { Bern: { Berne: 1 }, Rom: { Rom: 1 } } },
      n: { rows: 2, changed: 0, kappa: 1 },
      status: { agreement: 1, transitions: { '(none)': { '(none)': 1 }, x: { x: 1 } } },
      tags: { changed: 0 },
    });

    const several = (labels: readonly string[]): AnswerSpec => ({ kind: 'labels', labels, multiple: true });
    const c = files.write(
      'c.csv',
      [
        ['1', 'price, speed'],
        ['2', 'none'],
        ['3', 'price'],
      ],
      { answer: several(['price', 'speed']) },
    );
    const d = files.write(
      'd.jsonl',
      [
        ['1', 'price, speed'],
        ['2', 'none'],
        ['3', 'speed'],
      ],
      { answer: several(['speed', 'price']) },
    );
    const labels = await compareOutputs(c, d);
    expect(labels).toMatchObject({
      rows: 3,
      changed: 1,
      transitions: { none: { none: 1 }, price: { speed: 1 } },
    });
    expect(labels.parts).toMatchObject({
      price: { rows: 3, changed: 1, transitions: { yes: { yes: 1, '(none)': 1 } } },
    });
  });

  it('compares numbers and free texts, and tells a label from a word of its own', async () => {
    const number: AnswerSpec = { kind: 'number' };
    const a = files.write(
      'a.csv',
      [
        ['1', 'Rating: 4'],
        ['2', '-2'],
      ],
      { answer: number },
    );
    const b = files.write(
      'b.jsonl',
      [
        ['1', '4'],
        ['2', '-3'],
      ],
      { answer: number },
    );
    expect(await compareOutputs(a, b)).toMatchObject({
      changed: 1,
      transitions: { 4: { 4: 1 }, '-2': { '-3': 1 } },
    });
    const labels: AnswerSpec = { kind: 'labels', labels: ['(failed)', '=1+1'] };
    const c = files.write(
      'c.csv',
      [
        ['1', '(failed)'],
        ['2', '=1+1'],
      ],
      { answer: labels },
    );
    const d = files.write(
      'd.csv',
      [
        ['1', 'failed!'],
        ['2', '=1+1'],
      ],
      { answer: labels, formulas: 'raw' },
    );
    expect(await compareOutputs(c, d)).toMatchObject({
      changed: 1,
      transitions: { '"(failed)"': { '(failed)': 1 }, '=1+1': { '=1+1': 1 } },
    });
    const texts = Array.from({ length: 150 }, (_, i): readonly [string, string] => [String(i), `text ${i}`]);
    const e = files.write('e.csv', texts, { answer: { kind: 'text' } });
    const report = await compareOutputs(e, e);
    expect(report).toMatchObject({
      changed: 0,
      agreement: 1,
      kappa: null,
      transitions: { '(other)': { '(other)': 50 } },
    });
  });

  it('finds an id whose name the output has taken, and columns that output.columns has moved', async () => {
    const fields = (id: string): Record<string, string> => ({ answer: `a${id}`, status: `s${id}` });
    const columns = ['answer', 'input_status', 'input_answer', 'status'];
    const a = files.write('a.csv', BEFORE, { fields, columns });
    const b = files.write('b.jsonl', [...AFTER].reverse(), { fields, input: 'other' });
    for (const by of ['answer', 'status'])
      expect(await compareOutputs(a, b, { by })).toMatchObject({ rows: 6, changed: 3, by });
  });

  it('writes the rows that changed, with inert cells', async () => {
    const a = files.write(
      'a.csv',
      [
        ['=r1', 'good'],
        ['r2', ' -bad\n"x"'],
      ],
      { answer: { kind: 'text' } },
    );
    const b = files.write(
      'b.csv',
      [
        ['r2', '=1+1'],
        ['=r1', 'good'],
      ],
      { answer: { kind: 'text' }, input: 'other' },
    );
    const changed = { path: files.path('changed.csv'), overwrite: false };
    await compareOutputs(a, b, { by: 'id', changed });
    expect(parse(readFileSync(changed.path), { columns: true })).toEqual([
      {
        id: 'r2',
        row_a: '2',
        row_b: '1',
        answer_a: `'-bad\n"x"`,
        answer_b: "'=1+1",
        text_a: `'-bad\n"x"`,
        text_b: "'=1+1",
      },
    ]);
    await expect(compareOutputs(a, b, { by: 'id', changed })).rejects.toThrow(/changed.csv exists/);
    const same = files.write('c.csv', BEFORE);
    await compareOutputs(same, same, { changed: { ...changed, overwrite: true } });
    expect(readFileSync(changed.path, 'utf8')).toBe('row,answer_a,answer_b,text_a,text_b\n');
  });
});

describe('compare with right answers', () => {
  const job = (gold: string): string => {
    const path = files.path('reviews.yaml');
    writeFileSync(
      path,
      `name: reviews\nservice: { deployment: lm-35-turbo-instruct, api_version: 2023-09-15-preview }\ninput: { path: in.csv }\nprompt: "{{ note }}"\n` +
        `answer: { labels: [good, bad, fair], gold: ${gold} }\n`,
    );
    return path;
  };
  const STARS: Readonly<Record<string, string>> = { r1: '5', r2: '3', r3: '1', r4: '4', r5: '2', r6: '' };
  const fields = (id: string) => ({ note: `what ${id} says`, stars: STARS[id] ?? '' });
  const MAP = '{ column: stars, map: { good: [4, 5], fair: 3, bad: [1, 2] } }';

  it.each(MIXED)('says which one is better, from %s to %s', async (nameA, nameB) => {
    const summary = { job_file: job(MAP) };
    const a = files.write(nameA, BEFORE, { fields, summary });
    const b = files.write(nameB, AFTER, { fields, summary });
    const changed = { path: files.path('changed.csv') };
    const { verdict } = await compareOutputs(a, b, { changed });
    // Of r1 to r4 a has r1 right, and b all but r3. r5 has no answer, r6 no gold.
    expect(verdict).toMatchObject({
      ...{ rows: 4, better: 2, worse: 0, p: 0.5, says: 'even', unanswered: 1, invalid_a: 1, invalid_b: 0 },
      ...{ accuracy_a: { value: 0.25 }, accuracy_b: { value: 0.75 }, macro_f1_a: (2 / 3 + 0 + 0) / 3 },
    });
    expect(parse(readFileSync(changed.path), { columns: true })).toMatchObject([
      { row: '2', gold: 'fair', b_is: 'better', answer_a: 'bad', answer_b: 'fair' },
      { row: '4', gold: 'good', b_is: 'better', answer_a: '(invalid)', text_a: 'who knows' },
      { row: '5', gold: 'bad', b_is: '', answer_b: '(filtered)' },
    ]);
  });

  it('finds them with the values that --set gave the job', async () => {
    const summary = { job_file: job('another'), job_set: ['answer.gold=truth'] };
    const how = { summary, fields: () => ({ truth: 'Good' }) };
    const [a, b] = [files.write('a.csv', BEFORE, how), files.write('b.csv', AFTER, how)];
    expect((await compareOutputs(a, b)).verdict).toMatchObject({ says: 'even' });
  });

  it('knows a better and a worse one by enough rows', async () => {
    const rows = (wrong: number): Rows =>
      Array.from({ length: 40 }, (_, i) => [`x${i}`, i < wrong ? 'bad' : 'good']);
    const summary = { job_file: job('truth') };
    const how = { summary, fields: () => ({ truth: 'Good' }) };
    const [a, b] = [files.write('a.csv', rows(12), how), files.write('b.csv', rows(2), how)];
    expect((await compareOutputs(a, b)).verdict).toMatchObject({
      says: 'b',
      better: 10,
      worse: 0,
      needed: null,
    });
    expect((await compareOutputs(b, a)).verdict).toMatchObject({ says: 'a', better: 0, worse: 10 });
    const shown = renderTerminal(compareDocument(await compareOutputs(a, b), null), {
      width: 100,
      color: false,
    });
    expect(shown).toContain('right on 10 rows that a has wrong');
    expect(shown).toMatch(/accuracy +70.0 % +95.0 % +\+25.0 points/);
  });

  it('fault 9: counts labels named as what every object has, and marks only rows that it judges', async () => {
    const labels = ['a', 'constructor', '__proto__'];
    const how = { answer: { kind: 'labels', labels } as const, fields: () => ({ truth: 'a' }) };
    const a = files.write(
      'a.csv',
      [...labels, 'failed!'].map((end, i) => [`r${i}`, end] as const),
      how,
    );
    const b = files.write(
      'b.csv',
      [...labels.slice(0, 2), 'a', 'a'].map((end, i) => [`r${i}`, end] as const),
      how,
    );
    const page: ComparePage = {
      path: files.path('marks.html'),
      render: (report, changed) => renderHtml(compareDocument(report, changed)),
    };
    writeFileSync(files.path('truth.csv'), 'id,truth\nr2,a\nr3,a\n');
    await compareOutputs(a, b, { page, gold: [files.path('truth.csv')] });
    const written = readFileSync(page.path, 'utf8');
    const counts = [...written.matchAll(/data-shade="[^"]*">([^<]*)/g)].map(([, rows]) => rows);
    expect(counts.join(' ')).toBe('0 1 0 0 0 1 0 0 0 0 1 0 0 1 0 0');
    expect(written).toContain('<i data-kind="better"></i>');
    expect(written).not.toContain('data-kind=""');
  });

  it('takes them from a file or another column, and refuses what holds none', async () => {
    const how = { fields, summary: { job_file: job('stars') } };
    const [a, b] = [files.write('a.csv', BEFORE, how), files.write('b.jsonl', AFTER, how)];
    // Stars are no labels: what the job says of its gold may be newer than the outputs.
    expect((await compareOutputs(a, b)).verdict).toBeNull();
    await expect(compareOutputs(a, b, { gold: ['stars'] })).rejects.toMatchObject({ code: 'gold_invalid' });
    writeFileSync(files.path('gold.csv'), 'id,truth\nr1,good\nr2,fair\n');
    const gold = [`${files.path('gold.csv')}:truth`];
    expect((await compareOutputs(a, b, { gold })).verdict).toMatchObject({ rows: 2, better: 1 });
    const none = compareOutputs(b, a, { gold: ['nothing'] });
    await expect(none).rejects.toMatchObject({ code: 'gold_column_missing' });
    writeFileSync(files.path('gold.csv'), 'row,truth\n9,good\n');
    const changed = { path: files.path('none.csv') };
    await expect(compareOutputs(a, b, { gold, changed })).rejects.toMatchObject({
      code: 'gold_matches_nothing',
    });
    expect(existsSync(changed.path)).toBe(false);
    const text = { ...how, answer: { kind: 'text' } as const };
    const [c, d] = [files.write('c.csv', BEFORE, text), files.write('d.csv', AFTER, text)];
    expect((await compareOutputs(c, d)).verdict).toBeNull();
    await expect(compareOutputs(c, d, { gold: ['stars'] })).rejects.toMatchObject({ code: 'no_answer' });
  });

  it.each(MIXED)(
    'finds properties by their names, and rows in any order, from %s to %s',
    async (nameA, nameB) => {
      const schema = (...names: string[]): AnswerSpec => ({
        kind: 'json',
        schema: { type: 'object', properties: Object.fromEntries(names.map((name) => [name, {}])) },
      });
      const how = {
        summary: { job_file: job('truth') },
        fields: () => ({ truth: '{"n": 1, "city": "Rom"}' }),
      };
      const [right, wrong] = ['{"n": 1, "city": "Rom"}', '{"n": 1, "city": "Bern"}'];
      const rows: Rows = [
        ['1', right],
        ['2', wrong],
        ['3', right],
      ];
      const a = files.write(nameA, rows, { ...how, answer: schema('n', 'city') });
      const after: Rows = [
        ['3', wrong],
        ['1', right],
        ['2', right],
      ];
      const b = files.write(nameB, after, { ...how, answer: schema('city', 'n'), input: 'other' });
      expect((await compareOutputs(a, b, { by: 'id' })).verdict).toMatchObject({
        ...{ rows: 3, better: 1, worse: 1, accuracy_a: { value: 2 / 3 }, accuracy_b: { value: 2 / 3 } },
      });
    },
  );

  it('shows what the input says beside a changed row', async () => {
    const told = (id: string) => ({ note: id, review: `${id}: ${'long '.repeat(20)}`, answer: 'its own' });
    const [a, b] = [
      files.write('a.csv', BEFORE, { fields: told }),
      files.write('b.csv', AFTER, { fields: told }),
    ];
    // Without a known prompt: the first column with long texts.
    const { first_changed } = await compareOutputs(a, b);
    expect(first_changed.columns).toEqual(['row', 'answer_a', 'answer_b', 'text_a', 'text_b', 'review']);
    expect(first_changed.rows[0]?.at(-1)).toMatch(/^r2: long/);
  });
});

describe('the difference of two prompts', () => {
  it('has the lines of both in order, and few that are equal', () => {
    const a = 'One\nTwo\nThree\nFour\nFive\nSix';
    expect(textDifference(a, 'One\nTwo\nThree\nFour!\nFive\nSix')).toEqual([
      '…',
      '  Three',
      '- Four',
      '+ Four!',
      '  Five',
      '…',
    ]);
    expect(textDifference('x', 'x\ny')).toEqual(['  x', '+ y']);
    expect(textDifference('a\nb\nc', 'c')).toEqual(['- a', '- b', '  c']);
  });

  it('takes long lines apart into sentences', () => {
    const rule = 'Answer with one word, whatever the review says and whoever has written it.';
    expect(textDifference(`Classify this. ${rule} Be kind.`, `Classify this. ${rule} Be strict.`)).toEqual([
      '…',
      `  ${rule}`,
      '- Be kind.',
      '+ Be strict.',
    ]);
  });

  it('shows both where they have too many lines to compare', () => {
    const many = (of: string) => Array.from({ length: 2_001 }, (_, i) => `${of}${i}`).join('\n');
    const lines = textDifference(many('a'), many('b'));
    expect([lines[0], lines[2_000], lines[2_001], lines.length]).toEqual(['- a0', '- a2000', '+ b0', 4_002]);
  });
});

describe('compare says in a sentence, and writes nothing', () => {
  const refused = async (a: string, b: string, by: string | undefined, message: RegExp): Promise<void> => {
    const changed = { path: files.path('changed.csv'), overwrite: false };
    const error = await compareOutputs(a, b, { by, changed }).catch((reason) => reason);
    expect(error).toMatchObject({ exit: 2 });
    expect(`${error.message} ${error.hint}`).toMatch(message);
    expect(existsSync(changed.path)).toBe(false);
    expect(existsSync(`${changed.path}.tmp`)).toBe(false);
  };

  it('that it needs an id where inputs differ', async () => {
    const a = files.write('a.csv', BEFORE);
    await refused(
      a,
      files.write('b.csv', AFTER, { input: 'other' }),
      undefined,
      /different inputs.*--by COLUMN. Columns of both: id/,
    );
    await refused(a, files.write('b.csv', AFTER.slice(2)), undefined, /has 6 rows and .* 4, so/);
    const bare = files.write('c.csv', AFTER.slice(2), { summary: false });
    await refused(a, bare, undefined, /a.csv has 2 more rows than .*c.csv/);
  });

  it('which id is there twice, and which column is not', async () => {
    const twice: Rows = [...BEFORE, ['r2', 'good']];
    const a = files.write('a.csv', BEFORE);
    const b = files.write('b.jsonl', twice, { input: 'other' });
    await refused(a, b, 'id', /b.jsonl has the id "r2" twice, in rows 2 and 7/);
    await refused(b, a, 'id', /b.jsonl has the id "r2" twice, in rows 2 and 7/);
    await refused(b, b, 'id', /b.jsonl has the id "r2" twice, in rows 2 and 7/);
    const mixed = files.write(
      'c.csv',
      [
        ['n', 'good'],
        ['r2', 'bad'],
        ['r2', 'bad'],
      ],
      { input: 'other' },
    );
    await refused(a, mixed, 'id', /c.csv has the id "r2" twice, in rows 2 and 3/);
    const foreign = files.write(
      'd.csv',
      [
        ['n', 'good'],
        ['n', 'bad'],
      ],
      { input: 'other' },
    );
    await refused(a, foreign, 'id', /d.csv has the id "n" twice, in rows 1 and 2/);
    await refused(a, b, 'ids', /names "ids", but the input of .*a.csv has no such column; did you mean "id"/);
  });

  it('that they have no row in common, or are no outputs, or are not finished', async () => {
    const a = files.write('a.csv', BEFORE);
    await refused(
      a,
      files.write('b.csv', [['x', 'good']], { input: 'other' }),
      'id',
      /have no value of "id" in common/,
    );
    writeFileSync(files.path('in.csv'), 'id,note\n1,x\n');
    await refused(a, files.path('in.csv'), 'id', /in.csv is no output of a run: it has no column "status"/);
    writeFileSync(files.path('odd.jsonl'), '[1,2]\n');
    await refused(a, files.path('odd.jsonl'), 'id', /odd.jsonl is no output of a run/);
    await refused(a, files.path('none.csv'), 'id', /none.csv does not exist/);
    writeFileSync(files.path('begun.csv.part'), '');
    await refused(a, files.path('begun.csv'), 'id', /is not finished/);
    const ending = files.write('ending.csv', AFTER);
    writeFileSync(`${ending}.run.json`, '{"stage":"finishing"}');
    writeFileSync(`${ending}.part.tmp`, '');
    await refused(a, ending, 'id', /ending.csv is about to be replaced/);
    const { columns } = { columns: ['id', 'status'] };
    await refused(
      a,
      files.write('e.csv', AFTER, { columns }),
      'id',
      /e.csv is no output of a run: it has no column "answer"/,
    );
  });

  it('that an output was edited, or a summary is of another version', async () => {
    const a = files.write('a.csv', BEFORE);
    const b = files.write('b.csv', AFTER);
    const text = readFileSync(b, 'utf8');
    writeFileSync(b, text.replace('completed', 'finished'));
    await refused(a, b, undefined, /b.csv, row 1, is not as a run wrote it/);
    writeFileSync(b, `${text.split('\n').slice(0, -2).join('\n')}\n`);
    const { notes } = await compareOutputs(a, b, { by: 'id' });
    expect(notes).toEqual([expect.stringContaining('b.csv is not as Promptmill wrote it: ')]);
    writeFileSync(b, text);
    const { summary } = outputFiles(b);
    const written = JSON.parse(readFileSync(summary, 'utf8'));
    writeFileSync(summary, JSON.stringify({ ...written, details: { v: 2 } }));
    await refused(a, b, 'id', /b.summary.json was written by another version/);
    writeFileSync(summary, 'x');
    await refused(a, b, 'id', /b.summary.json is no summary of a run/);
  });

  it('that the rows that changed have no place', async () => {
    const a = files.write('a.csv', BEFORE);
    const at = (path: string) => compareOutputs(a, a, { changed: { path, overwrite: true } });
    await expect(at(a)).rejects.toThrow(/a.csv is a file of the run itself/);
    const { review } = outputFiles(a);
    // Nor the name of one that a run may write.
    await expect(at(review)).rejects.toMatchObject({ code: 'output_is_input' });
    const [input, link] = [files.path('in.csv'), files.path('link.csv')];
    for (const path of [review, input]) writeFileSync(path, 'kept');
    const of = files.write('b.csv', BEFORE, { summary: { input: { path: input, sha256: 's', rows: 6 } } });
    for (const path of [review, input]) {
      const work = compareOutputs(a, of, { by: 'id', changed: { path, overwrite: true } });
      await expect(work).rejects.toMatchObject({ code: 'output_is_input' });
      expect(readFileSync(path, 'utf8')).toBe('kept');
    }
    symlinkSync(files.path('nowhere.csv'), link);
    await expect(at(link)).rejects.toThrow(/link.csv is a symbolic link/);
    await expect(at(files.path('x.jsonl'))).rejects.toThrow(/what it writes ends in .csv/);
    await expect(at(files.path('none/x.csv'))).rejects.toThrow(/cannot write .*none\/x.csv/);
  });
});
