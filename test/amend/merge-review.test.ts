import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody } from '../support/scripted-service.js';

const LABELS = { positive: ['good'], negative: [], neutral: [] };
const ANSWER = { labels: LABELS, confidence: 'logprobs', abstain_below: 0.8 };

/** What the model says of each row, and how sure it is of that. */
const SAID: readonly (readonly [text: string, confidence: number])[] = [
  [' positive', 0.95],
  [' negative', 0.6],
  [' I cannot\nsay', 0.9],
  [' =1+1', 0.9],
  [' neutral', 0.5],
];

let place: MemoryPlace;
beforeEach(() => {
  place = new MemoryPlace();
});
afterEach(() => place.work.remove());

/** Runs a job over in.csv into out.csv. */
const run = async (job: object): Promise<void> => {
  const path = place.work.job({ input: { path: 'in.csv' }, output: { path: 'out.csv' }, ...job });
  const { code, said } = await place.run(path);
  expect(code, said).toBe(0);
};

describe('promptmill merge-review', () => {
  beforeEach(() => {
    place.work.write('in.csv', 'id,note\n1,"a, ""b"""\n2,"c\nd"\n3,=e\n4,f🙂\n5,g\n');
    place.script = ({ prompt }) => {
      const [text, confidence] = SAID[Number(prompt.split(' ')[1]) - 1] ?? ['', 1];
      return { json: completionBody({ text, confidence }) };
    };
  });

  /** What a run of the job leaves behind, made once. */
  const finished = new Workplace();
  afterAll(() => finished.remove());
  const runOnce = async () => {
    if (!existsSync(finished.path('out.csv'))) {
      await run({ answer: ANSWER });
      cpSync(place.work.folder, finished.folder, { recursive: true });
    }
    cpSync(finished.folder, place.work.folder, { recursive: true });
  };
  const merge = (output = 'out.csv', review = 'out.review.csv', ...flags: string[]) =>
    place.work.call(['merge-review', output, review, ...flags]);
  const inode = (name: string): number => statSync(place.work.path(name)).ino;

  /** The file for review with the answers of these rows, as its writer has it. */
  const fill = (answers: Readonly<Record<string, string>>, name = 'out.review.csv'): void => {
    const rows = place.work.records(name).map((row) => ({ ...row, answer: answers[row['row'] ?? ''] ?? '' }));
    place.work.write(name, table(rows, ','));
  };

  it('puts answers into their rows, and leaves every other byte as it is', async () => {
    await runOnce();
    const before = place.work.read('out.csv');
    const summary = place.work.json('out.summary.json');
    fill({ 2: 'Good', 3: ' neutral ' });
    chmodSync(place.work.path('out.csv'), 0o640);
    const ended = await merge();
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).toBe('merged 2 answers into out.csv; 2 rows of the review are still empty\n');
    expect(statSync(place.work.path('out.csv')).mode & 0o777).toBe(0o640);
    const records = place.work.records('out.csv');
    expect(
      records.map(({ answer, abstained, error_code, error_message }) => [
        answer,
        abstained,
        error_code,
        error_message,
      ]),
    ).toEqual([
      ['positive', 'false', '', ''],
      ['positive', 'false', '', ''],
      ['neutral', 'false', '', ''],
      ['', 'false', 'answer_not_a_label', expect.stringContaining('=1+1')],
      ['', 'true', '', ''],
    ]);
    const [lines, now] = [before, place.work.read('out.csv')].map((text) => text.split('\n'));
    // Row 2 takes two lines, and its record ends on the second.
    expect(now?.map((line, i) => (line === lines?.[i] ? null : i + 1)).filter((i) => i !== null)).toEqual([
      4, 5, 6,
    ]);
    expect(now?.[3]).toBe(
      lines?.[3]?.replace('completed,,negative', 'completed,positive,negative').replace(/true$/, 'false'),
    );
    const { merged_review, ...rest } = place.work.json('out.summary.json');
    expect({ ...rest, details: null }).toEqual({ ...summary, details: null });
    expect(merged_review).toEqual({ rows: 2, at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) });
    expect(readdirSync(place.work.folder).filter((name) => /\.(tmp|part|lock)$/.test(name))).toEqual([]);
  });

  it('changes nothing when it is run again, and goes on with further answers', async () => {
    await runOnce();
    fill({ 2: 'negative' });
    await merge();
    const before = [inode('out.csv'), inode('out.summary.json')];
    const again = await merge();
    expect(again.stderr).toBe(
      'merged 0 answers into out.csv (1 was there already); 3 rows of the review are still empty\n',
    );
    expect([inode('out.csv'), inode('out.summary.json')]).toEqual(before);
    fill({ 2: 'neutral', 3: 'neutral', 4: 'positive', 5: 'neutral' });
    const all = await merge();
    expect(all.stderr).toBe('merged 4 answers into out.csv; no row of the review is empty\n');
    expect(place.work.records('out.csv').map(({ answer }) => answer)).toEqual([
      'positive',
      'neutral',
      'neutral',
      'positive',
      'neutral',
    ]);
    expect(place.work.json('out.summary.json')).toMatchObject({
      merged_review: { rows: 5 },
      answers_abstained: 2,
    });
  });

  it('makes the report anew where one is there', async () => {
    await runOnce();
    fill({ 2: 'negative' });
    await place.work.call(['report', 'out.csv', '--html', 'out.report.html']);
    expect((await merge()).code).toBe(0);
    const page = place.work.read('out.report.html');
    expect(page).toContain('Answers of people put in since');
    expect((await place.work.call(['report', 'out.csv', '--html', '-'])).stdout).toBe(page);
  });

  it('adds the answers of several files up', async () => {
    await runOnce();
    place.work.write('a.csv', 'row,answer\n2,negative\n');
    place.work.write('b.csv', 'row,answer\n3,neutral\n5,neutral\n');
    await merge('out.csv', 'a.csv');
    await merge('out.csv', 'b.csv');
    expect(place.work.json('out.summary.json')).toMatchObject({ merged_review: { rows: 3 } });
  });

  it('reads the file of an input with a column row', async () => {
    place.work.write('in.csv', 'id,row,input_row\n1,a,b\n2,c,d\n');
    await run({ answer: ANSWER });
    expect(place.work.read('out.review.csv').split('\n', 1)[0]).toMatch(/^row,id,input_input_row,input_row,/);
    expect(place.work.records('out.review.csv')).toMatchObject([
      { row: '2', id: '2', input_input_row: 'c', input_row: 'd' },
    ]);
    fill({ 2: 'negative' });
    expect((await merge()).stderr).toContain('merged 1 answer');
    const scored = await place.work.call(['score', 'out.csv', '--gold', 'out.review.csv', '--json']);
    expect(scored.code, scored.stderr).toBe(0);
    expect(JSON.parse(scored.stdout)).toMatchObject({ scores: { rows: 1, accuracy: { value: 1 } } });
  });

  it('says how to save a file that is not UTF-8', async () => {
    await runOnce();
    place.work.write('r.csv', Buffer.from('row,answer,note\n2,negative,caf\u00e9\n', 'latin1'));
    const ended = await merge('out.csv', 'r.csv');
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('save it as CSV UTF-8');
    expect(ended.stderr).not.toContain('input.encoding');
  });

  it('reads a file that a spreadsheet has saved', async () => {
    await runOnce();
    const rows = place.work.records('out.review.csv').map(({ row = '', text = '' }) => {
      const answer = row === '4' ? 'NEUTRAL' : row === '5' ? 'negative' : '';
      return { answer, text: `${text.toUpperCase()} `, remark: 'mine', row };
    });
    const text = table(rows.reverse(), ';').replaceAll('\n', '\r\n');
    place.work.write('saved.csv', `\ufeff${text}`);
    const ended = await merge('out.csv', 'saved.csv');
    expect(ended.code, ended.stderr).toBe(0);
    expect(place.work.records('out.csv').map(({ answer }) => answer)).toEqual([
      'positive',
      '',
      '',
      'neutral',
      'negative',
    ]);
    place.work.write('short.csv', 'row,answer\n3,positive\n');
    expect((await merge('out.csv', 'short.csv')).stderr).toContain('merged 1 answer into');
  });

  it('tells all that is wrong together, and writes nothing', async () => {
    await runOnce();
    const before = [place.work.read('out.csv'), place.work.read('out.summary.json')];
    place.work.write(
      'bad.csv',
      'row,text,answer\n2,negative,whatever\nx,,positive\n2,negative,positive\n2,negative,neutral\n3,I cannot say\n',
    );
    const invalid = await merge('out.csv', 'bad.csv');
    expect(invalid.code).toBe(2);
    expect(invalid.stderr.split('\n').slice(0, 4)).toEqual([
      'promptmill: bad.csv, line 2: column "answer" has the text "whatever", which is none of the labels positive, negative, neutral',
      'bad.csv, line 3: column "row" has "x", which is no number of a row',
      'bad.csv, line 5: row 2 has an answer in line 4 already',
      'bad.csv, line 6: the record on line 6 has 2 cells, and the header has 3',
    ]);
    place.work.write('other.csv', 'row,text,answer\n2,something else,positive\n9,x,positive\n');
    const other = await merge('out.csv', 'other.csv');
    expect(other.code).toBe(2);
    expect(other.stderr).toContain(
      'other.csv, line 2: its text is not the one of row 2 of out.csv, so it is about another row; where a spreadsheet has changed the texts, delete the column text, and rows are not compared',
    );
    expect(other.stderr).toContain('other.csv, line 3: row 9 is behind the last of the 5 rows of out.csv');
    expect(other.stderr).toContain('Nothing was written.');
    expect([place.work.read('out.csv'), place.work.read('out.summary.json')]).toEqual(before);
  });

  it.each<[string, string, () => void, string[]]>([
    ['an output that is not there', 'does not exist', () => rmSync(place.work.path('out.csv')), []],
    ['a review that is not there', 'no.csv does not exist', () => {}, ['out.csv', 'no.csv']],
    [
      'an output of a run that goes on',
      'is a run that is not finished',
      () => place.work.write('out.csv.run.json', '{}'),
      [],
    ],
    ['an output that was cut', 'it has 1 row fewer than were written', () => cutLastLine(), []],
    [
      'a link',
      'is a symbolic link',
      () => {
        renameSync(place.work.path('out.csv'), place.work.path('real.csv'));
        symlinkSync('real.csv', place.work.path('out.csv'));
      },
      [],
    ],
    [
      'no summary',
      'no summary beside out.csv names its job file',
      () => rmSync(place.work.path('out.summary.json')),
      [],
    ],
    [
      'a file without answers',
      'has no column answer',
      () => place.work.write('r.csv', 'row,text\n2,negative\n'),
      ['out.csv', 'r.csv'],
    ],
    [
      'a file without rows',
      'has no column row',
      () => place.work.write('r.csv', 'id,answer\n2,negative\n'),
      ['out.csv', 'r.csv'],
    ],
  ])('refuses %s', async (_, message, harm, names) => {
    await runOnce();
    harm();
    const ended = await merge(...names);
    expect(ended.code, ended.stderr).toBe(2);
    expect(ended.stderr).toContain(message);
  });

  const cutLastLine = (): void => {
    const text = place.work.read('out.csv');
    truncateSync(
      place.work.path('out.csv'),
      Buffer.byteLength(text.slice(0, text.lastIndexOf('\n', text.length - 2) + 1)),
    );
  };

  it('takes another job file', async () => {
    await runOnce();
    fill({ 2: 'negative' });
    renameSync(place.work.path('job.yaml'), place.work.path('moved.yaml'));
    const ended = await merge('out.csv', 'out.review.csv', '--job', 'moved.yaml');
    expect(ended.code, ended.stderr).toBe(0);
    expect(place.work.records('out.csv')[1]).toMatchObject({ answer: 'negative' });
  });

  it('puts them into JSONL as well', async () => {
    await run({ answer: ANSWER, output: { path: 'out.jsonl' } });
    const before = place.work.lines('out.jsonl');
    fill({ 2: 'good', 3: 'neutral' });
    const ended = await merge('out.jsonl');
    expect(ended.code, ended.stderr).toBe(0);
    expect(place.work.lines('out.jsonl')).toEqual(
      before.map((line, i) => {
        if (i === 1) return { ...line, answer: 'positive', abstained: false };
        return i === 2 ? { ...line, answer: 'neutral', error: null } : line;
      }),
    );
  });

  it('refuses while another process has the output', async () => {
    await runOnce();
    fill({ 2: 'negative' });
    const { acquireLock } = await import('../../src/core/lock.js');
    const lock = await acquireLock(place.work.path('.out.lock'), { purpose: 'writing out.csv' });
    const before = readFileSync(place.work.path('out.csv'));
    const refused = await merge();
    expect(refused.code, refused.stderr).toBe(2);
    lock.release();
    expect(readFileSync(place.work.path('out.csv'))).toEqual(before);
    expect((await merge()).code).toBe(0);
  });
});

describe('promptmill merge-review, of other answers', () => {
  beforeEach(() => {
    place.work.write('in.csv', 'id\n1\n2\n');
    place.script = () => ({ json: completionBody({ text: ' no idea' }) });
  });

  it.each<[string, object, string, Record<string, string>, string]>([
    ['a number', { number: { min: 1, max: 5 } }, 'row,answer\n2,4.0\n', { answer: '4' }, '9'],
    [
      'several labels',
      { labels: ['a', 'b'], multiple: true },
      'row,answer\n2,B; a\n',
      { answer: 'a;b' },
      'c',
    ],
  ])('takes %s', async (_, answer, review, expected, wrong) => {
    await run({ answer: { ...answer, require: { valid: 0 } } });
    place.work.write('r.csv', review);
    const ended = await place.work.call(['merge-review', 'out.csv', 'r.csv']);
    expect(ended.code, ended.stderr).toBe(0);
    expect(place.work.records('out.csv')).toMatchObject([{ answer: '' }, { ...expected, error_code: '' }]);
    place.work.write('r.csv', `row,answer\n1,${wrong}\n`);
    expect((await place.work.call(['merge-review', 'out.csv', 'r.csv'])).code).toBe(2);
  });

  it.each(['out.csv', 'out.jsonl'])('takes the properties of JSON into %s', async (output) => {
    const properties = { name: { type: 'string' }, age: { type: 'integer' }, tags: { type: 'array' } };
    const answer = { json: { type: 'object', properties, required: ['name'] }, require: { valid: 0 } };
    await run({ output: { path: output }, answer });
    const given =
      output === 'out.csv'
        ? 'row,name,age,tags\n2,007,30,"[""x, y""]"\n1,,,\n'
        : 'row,answer\n2,"{""name"":""007"",""age"":30,""tags"":[""x, y""]}"\n1,\n';
    place.work.write('r.csv', given);
    const ended = await place.work.call(['merge-review', output, 'r.csv']);
    expect(ended.code, ended.stderr).toBe(0);
    if (output === 'out.csv')
      expect(place.work.records(output)[1]).toMatchObject({
        name: '007',
        age: '30',
        tags: '["x, y"]',
        error_code: '',
      });
    else
      expect(place.work.lines(output)[1]).toMatchObject({
        answer: { name: '007', age: 30, tags: ['x, y'] },
        error: null,
      });
    place.work.write(
      'r.csv',
      output === 'out.csv'
        ? 'row,name,age,tags\n1,Ann,old,\n'
        : 'row,answer\n1,"{""name"":""Ann"",""age"":""old""}"\n',
    );
    const wrong = await place.work.call(['merge-review', output, 'r.csv']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('r.csv, line 2: answer.age must be integer');
    place.work.write('r.csv', 'row,answer\n1,"{""name"":""Ann""}"\n');
    expect((await place.work.call(['merge-review', output, 'r.csv'])).stderr).toContain('merged 1 answer');
  });

  /** Runs a job with these properties, and merges a review into its output. */
  const merged = async (properties: object, review: string, output = 'out.csv', more: object = {}) => {
    const answer = { json: { type: 'object', properties }, require: { valid: 0 } };
    await run({ output: { path: output }, answer, ...more });
    place.work.write('r.csv', review);
    return await place.work.call(['merge-review', output, 'r.csv']);
  };

  it('never takes a result column for a property of its name', async () => {
    const properties = { text: { type: 'string' }, status: { type: 'string' } };
    const taken = await merged(properties, 'row,text,answer_text,answer_status\n2,no idea,mine,new\n');
    expect(taken.code, taken.stderr).toBe(0);
    expect(place.work.records('out.csv')[1]).toMatchObject({
      status: 'completed',
      text: 'no idea',
      answer_text: 'mine',
      answer_status: 'new',
    });
    place.work.write('r.csv', 'row,status,text\n1,completed,no idea\n');
    const refused = await place.work.call(['merge-review', 'out.csv', 'r.csv']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(
      'r.csv has no column answer_text, answer_status; it has row, status, text',
    );
  });

  it('knows the result columns that only some jobs have', async () => {
    const dedupe = { input: { path: 'in.csv', dedupe: true }, parameters: { temperature: 0 } };
    const review = 'row,answer_copied_from\n2,mine\n';
    const taken = await merged({ copied_from: { type: 'string' } }, review, 'out.csv', dedupe);
    expect(taken.code, taken.stderr).toBe(0);
    expect(place.work.records('out.csv')[1]).toMatchObject({ answer_copied_from: 'mine', copied_from: '' });
  });

  it('takes nothing but the part answer for JSONL', async () => {
    const review = 'row,error,text,answer\n2,{},no idea,"{""error"":""mine""}"\n';
    const taken = await merged({ error: { type: ['string', 'object'] } }, review, 'out.jsonl');
    expect(taken.code, taken.stderr).toBe(0);
    expect(place.work.lines('out.jsonl')[1]).toMatchObject({ answer: { error: 'mine' }, error: null });
    place.work.write('r.csv', 'row,error\n1,mine\n');
    const refused = await place.work.call(['merge-review', 'out.jsonl', 'r.csv']);
    expect(refused.stderr).toContain('r.csv has no column answer; it has row, error');
  });

  it('takes the whole answer where a property is called row', async () => {
    const taken = await merged({ row: { type: 'integer' } }, 'row,answer\n2,"{""row"":7}"\n');
    expect(taken.code, taken.stderr).toBe(0);
    expect(place.work.records('out.csv').map(({ row }) => row)).toEqual(['', '7']);
    place.work.write('r.csv', 'row\n1\n');
    const refused = await place.work.call(['merge-review', 'out.csv', 'r.csv']);
    expect(refused.stderr).toContain('r.csv has no column answer; it has row');
  });

  it('refuses a review that has some of the properties only', async () => {
    const properties = { name: { type: 'string' }, age: { type: 'integer' } };
    const refused = await merged(properties, 'row,name,answer\n2,Ann,\n');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('r.csv has no column age; it has row, name, answer');
  });

  it('takes cells as spreadsheets write them', async () => {
    const properties = {
      code: { type: ['string', 'null'] },
      is_new: { type: 'boolean' },
      is_old: { type: 'boolean' },
      word: { enum: ['TRUE', '1'] },
    };
    const taken = await merged(
      properties,
      'row,code,is_new,is_old,word\n1,12345,TRUE,False,1\n2,null,,,TRUE\n',
    );
    expect(taken.code, taken.stderr).toBe(0);
    expect(place.work.records('out.csv')).toMatchObject([
      { code: '12345', is_new: 'true', is_old: 'false', word: '1' },
      { code: '', is_new: '', is_old: '', word: 'TRUE' },
    ]);
  });
});

/** Records as a table. */
function table(records: readonly Readonly<Record<string, string>>[], delimiter: string): string {
  const cell = (text: string): string => (/["\n\r,;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [Object.keys(records[0] ?? {}), ...records.map((record) => Object.values(record))];
  return lines.map((line) => `${line.map(cell).join(delimiter)}\n`).join('');
}
