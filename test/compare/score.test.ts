import { rmSync } from 'node:fs';
import { stringify } from 'csv-stringify/sync';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody, type Script } from '../support/scripted-service.js';

/** Text of the answer to each row, and the probabilities of what might begin it; none where there are no log probabilities. */
const SAYS: readonly (readonly [text: string, probabilities: Readonly<Record<string, number>> | null])[] = [
  [' positive', { ' positive': 0.95, ' negative': 0.05 }],
  [' negative', { ' negative': 0.6, ' positive': 0.4 }],
  [' neutral', { ' neutral': 0.9, ' positive': 0.05 }],
  [' I guess', null],
  [' positive', null],
  [' =odd', { ' =odd': 0.85, ' positive': 0.1 }],
  [' negative', { ' negative': 0.75, ' neutral': 0.2 }],
];

const ROWS = `id,note,Truth
a,"x, y",positive
b,y,POSITIVE
c,"z
z",neutral
d,-1,negative
e,e,negative
f,f,=odd
g,,positive
h,h,
i,i
`;

const LABELS = ['positive', 'negative', 'neutral', '=odd'];

let place: MemoryPlace;
let work: Workplace;
const script: Script = ({ prompt, body: { n } }) => {
  const [kind, id = ''] = prompt.split(' ');
  const at = 'abcdefgh'.indexOf(id);
  const texts: Readonly<Record<string, readonly string[]>> = {
    json: ['{"city": "5", "n": 5}', '{"city": "", "n": 6}', '{"n": 7}', 'none', '{"city": "Rom"}', '{}'],
    number: ['4', '3.5', 'five', '9', '2'],
    reused: ['{"copied_from": 5}', '{"copied_from": 6}'],
    several: ['price', 'price, quality', 'none', 'cats', 'quality'],
  };
  if (kind !== 'label') {
    const body = completionBody({ text: texts[kind ?? '']?.[at] ?? '1' });
    const choices = Array.from({ length: Number(n ?? 1) }, (_, index) => ({ ...body.choices[0], index }));
    return { json: { ...body, choices } };
  }
  const [text, probabilities] = SAYS[at] ?? [' neutral', { ' neutral': 1 }];
  const top = Object.fromEntries(
    Object.entries(probabilities ?? {}).map(([token, p]) => [token, Math.log(p)]),
  );
  const logprobs = { tokens: [text], token_logprobs: [null], top_logprobs: [top] };
  const body = completionBody({ text });
  const choices = body.choices.map((choice) => ({ ...choice, logprobs: probabilities && logprobs }));
  return { json: { ...body, choices } };
};
const begin = (): void => {
  place = new MemoryPlace();
  place.script = script;
  work = place.work;
  work.write('in.csv', ROWS);
};
const end = (): void => work.remove();

const call = (...args: string[]) => work.call(args);

/** Runs a job to its end. */
async function run(job: object): Promise<void> {
  const file = work.job({ input: { path: 'in.csv', require: ['note'] }, prompt: 'label {{ id }}', ...job });
  const { code, said } = await place.run(file);
  expect([0, 1], said).toContain(code);
}

const SURE = {
  labels: LABELS,
  confidence: 'logprobs',
  abstain_below: 0.8,
  gold: 'Truth',
  require: { valid: 0 },
};

/** What `score --json` says, which knows of no service. */
async function scored(...args: string[]) {
  const { code, stdout, stderr } = await call('score', ...args, '--json');
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** The scores of the summary, in which numbers may have been added in another order. */
const summarised = (name: string) => {
  const scores = work.json(name)['scores'] as Record<string, unknown>;
  const { brier } = scores;
  return { ...scores, brier: typeof brier === 'number' ? expect.closeTo(brier, 10) : brier };
};

describe('the scores of an output', () => {
  beforeEach(begin);
  afterEach(end);

  it.each(['out.csv', 'out.jsonl'])(
    '%s are those of its run, by its own answers and confidence',
    async (path) => {
      await run({ answer: SURE, output: { path, probabilities: true } });
      const report = await scored(path);
      expect(report).toMatchObject({ output: path, job: 'job.yaml', gold: ['Truth'], records: 9, notes: [] });
      expect(report.scores).toEqual(summarised('out.summary.json'));
      expect(report.scores).toMatchObject({
        rows: 6,
        unanswered: 1,
        abstained: 2,
        answered: 3,
        answered_accuracy: 1,
      });
      expect(report.scores.brier).toBeGreaterThan(0);
      // Row b was left out at 0.6, and row e has no confidence.
      expect(report.abstention.thresholds[0]).toMatchObject({ threshold: 0.5, answered: 4, coverage: 4 / 6 });
      expect(report.abstention.thresholds[3]).toMatchObject({
        threshold: 0.65,
        answered: 3,
        accuracy: { value: 1 },
      });
      // Three sure rows that are right are too few for `answer.abstain`.
      expect(report.abstention.targets).toEqual(
        [0.9, 0.95, 0.99].map((accuracy) => ({ accuracy, reached: null })),
      );
    },
  );

  const schema = { type: 'object', properties: { city: { type: 'string' }, n: { type: 'number' } } };
  const TRUTHS = {
    json: [
      '{"city": "5", "n": 5}',
      '{"city": "", "n": 5}',
      '{"city": null, "n": 7}',
      '{"n": 1}',
      '{"city": "Rome"}',
      '{"n": null}',
    ],
    number: ['4', '3', '5', '', '2.0'],
    several: ['price', 'price;delivery', 'none', 'price', 'quality'],
  };
  it.each([
    ['json', { json: schema }, 'out.csv'],
    ['json', { json: schema }, 'out.jsonl'],
    ['number', { number: { min: 1, max: 5 } }, 'out.csv'],
    ['number', { number: { min: 1, max: 5 } }, 'out.jsonl'],
    ['several', { labels: ['price', 'delivery', 'quality'], multiple: true }, 'out.csv'],
    ['several', { labels: ['price', 'delivery', 'quality'], multiple: true }, 'out.jsonl'],
  ] as const)('are those of its run for %s: %j in %s', async (kind, answer, path) => {
    work.write(
      'in.csv',
      stringify([['id', 'truth'], ...TRUTHS[kind].map((truth, i) => ['abcdefgh'.charAt(i), truth])]),
    );
    await run({
      input: { path: 'in.csv' },
      prompt: `${kind} {{ id }}`,
      answer: { ...answer, gold: 'truth', require: { valid: 0 } },
      output: { path },
    });
    const report = await scored(path);
    expect(report.scores).toEqual(summarised('out.summary.json'));
    expect(report.abstention).toBeNull();
  });

  it.each(['out.csv', 'out.jsonl'])(
    '%s has no Brier score of numbers that voted, and says so',
    async (path) => {
      work.write('in.csv', 'id,truth\na,4\nb,3\nd,\n');
      const answer = { number: { min: 1, max: 5 }, votes: 2, gold: 'truth', require: { valid: 0 } };
      await run({ input: { path: 'in.csv' }, prompt: 'number {{ id }}', answer, output: { path } });
      const report = await scored(path);
      expect(report.notes).toEqual(['no Brier score: the records have no probabilities of numbers']);
      expect(report.scores).toEqual({ ...summarised('out.summary.json'), brier: null });
      expect(report.abstention.thresholds[0]).toMatchObject({ answered: 2, accuracy: { value: 0.5 } });
    },
  );

  it('are of input columns and properties that have the name of a column of the result', async () => {
    work.write('in.csv', ROWS.replace('Truth', 'p_positive'));
    const answer = { ...SURE, gold: 'p_positive' };
    await run({ answer, output: { path: 'out.csv', probabilities: true } });
    expect((await scored('out.csv')).scores).toEqual(summarised('out.summary.json'));

    work.write(
      'in.csv',
      stringify([['id', 'carried_from'], ...['a', 'b'].map((id) => [id, '{"copied_from": 5}'])]),
    );
    const properties = { copied_from: { type: 'number' } };
    await run({
      input: { path: 'in.csv', dedupe: true, only_new: true },
      parameters: { temperature: 0 },
      prompt: 'reused {{ id }}',
      answer: { json: { type: 'object', properties }, gold: 'carried_from' },
      output: { path: 'reused.csv' },
    });
    const { scores } = await scored('reused.csv');
    expect(scores).toEqual(summarised('reused.summary.json'));
    expect(scores.accuracy.value).toBe(0.5);
  });

  it('are told with the thresholds', async () => {
    await run({ answer: SURE, output: { path: 'out.csv', probabilities: true } });
    const { code, stdout, stderr } = await call('score', 'out.csv');
    expect(code, stderr).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toContain(`\
out.csv
9 records, right answers in Truth

scores          3 of 6 rows with gold answered (50.0 %), accuracy 100.0 % of those,
                accuracy 50.0 % (18.8 % to 81.2 %) of all, macro F1 0.667, kappa 0.438,
                Brier score 0.192, calibration error 0.225
`);
    expect(stderr).toContain(`\
abstention      abstain_below  answered  accuracy
                         0.50    66.7 %  75.0 % (30.1 % to 95.4 %)
`);
    expect(stderr).toContain(`\
                no threshold with 30 rows with gold above it reaches 95 % accuracy
`);
  });

  /** An output with so many rows that have this confidence, the first of them right. */
  function sureOf(...groups: readonly (readonly [confidence: string, rows: number, right: number])[]): void {
    const records = groups.flatMap(([confidence, rows, right]) =>
      Array.from({ length: rows }, (_, i) => ({
        truth: i < right ? 'positive' : 'negative',
        ...{ status: 'completed', answer: 'positive', text: 'positive', error_code: '', confidence },
      })),
    );
    work.write('out.csv', stringify(records, { header: true }));
    const answer = { labels: ['positive', 'negative'], confidence: 'logprobs', gold: 'truth' };
    work.job({ input: { path: 'in.csv' }, answer });
  }

  it('say the threshold that answer.abstain would take, or that every label may stay', async () => {
    const said = async () =>
      (await call('score', 'out.csv', '--job', 'job.yaml')).stderr.replaceAll(/\s+/g, ' ');
    sureOf(['0.9', 30, 30], ['0.6', 10, 5]);
    expect(await said()).toContain(
      'at 95 % accuracy 75.0 % of the rows are answered: abstain_below 0.9 (30 rows',
    );
    sureOf(['0.9', 29, 29], ['0.6', 10, 5]);
    expect(await said()).toContain('no threshold with 30 rows with gold above it reaches 95 % accuracy');
    sureOf(['0.9', 30, 30], ['', 10, 10]);
    expect(await said()).toContain(
      '95 % accuracy 100.0 % of the rows are answered: every label may stay (40 rows',
    );
  });

  it.each(['out.csv', 'out.jsonl'])(
    '%s say how sure and right the model was also after people have answered',
    async (path) => {
      await run({ answer: SURE, output: { path, probabilities: true } });
      const before = await scored(path);
      // The model said negative of row 2 with 0.6, and no label of row 4.
      work.write('mine.csv', 'row,answer\n2,positive\n4,negative\n');
      const { code, stderr } = await call('merge-review', path, 'mine.csv');
      expect(code, stderr).toBe(0);
      const after = await scored(path);
      expect(after.scores).toMatchObject({ accuracy: { value: 5 / 6 }, answered: 5 });
      for (const name of ['calibration', 'ece', 'brier'])
        expect(after.scores[name], name).toEqual(before.scores[name]);
      expect(after.abstention).toEqual(before.abstention);
    },
  );

  it('leave out what the columns are missing for, and say so', async () => {
    const columns = ['id', 'Truth', 'status', 'answer', 'error_code', 'text', 'abstained'];
    await run({ answer: SURE, output: { path: 'out.csv', columns } });
    const report = await scored('out.csv');
    expect(report.scores).toMatchObject({ rows: 6, abstained: 2, answered: 3, brier: null, ece: null });
    expect(report.abstention).toBeNull();
    expect(report.notes).toEqual([
      'no calibration error and no abstention: the records have no confidence',
      'no Brier score: the records have no p_positive, p_negative, p_neutral, p_=odd',
    ]);
  });
});

describe('right answers', () => {
  beforeAll(async () => {
    begin();
    await run({ answer: SURE, output: { path: 'out.csv' } });
  });
  afterAll(end);

  it('come from another column, also one that was added to the output', async () => {
    const added = work.records('out.csv').map((record, i) => ({ ...record, mine: i === 0 ? 'neutral' : '' }));
    work.write('added.csv', stringify(added, { header: true }));
    const { scores } = await scored('added.csv', '--job', 'job.yaml', '--gold', 'mine');
    expect(scores).toMatchObject({ rows: 1, accuracy: { value: 0 } });
  });

  it('come from the file for review as people filled it in, before those of the column', async () => {
    const review = work.records('out.review.csv');
    expect(review.map(({ row }) => row)).toEqual(['2', '4', '5']);
    const filled = review.map((record) => ({
      ...record,
      answer: { 2: 'Negative', 5: 'neutral' }[record['row'] ?? ''] ?? '',
    }));
    // As a spreadsheet saves it.
    work.write(
      'filled.csv',
      `\ufeff${stringify(filled, { header: true, delimiter: ';', record_delimiter: '\r\n' })}`,
    );
    const alone = await scored('out.csv', '--gold', 'filled.csv');
    expect(alone.scores).toMatchObject({ rows: 2, abstained: 2, answered: 0, accuracy: { value: 0 } });
    // The model said negative of row 2 with 0.6.
    expect(alone.scores.calibration).toEqual([{ from: 0.5, to: 0.6, rows: 1, confidence: 0.6, accuracy: 1 }]);
    expect(alone.notes[0]).toBe(
      'the rows of filled.csv are matched by its column "row": the number of a row of out.csv, from 1',
    );
    const both = await scored('out.csv', '--gold', 'filled.csv', '--gold', 'Truth');
    expect(both.gold).toEqual(['filled.csv', 'Truth']);
    expect(both.scores).toMatchObject({
      rows: 6,
      labels: { negative: { support: 2 }, neutral: { support: 2 } },
    });
  });

  it('come from a file that tells rows by their id', async () => {
    work.write('gold.csv', 'id,truth\na,positive\nc,positive\nzz,neutral\n');
    const report = await scored('out.csv', '--gold', 'gold.csv');
    expect(report.scores).toMatchObject({ rows: 2, accuracy: { value: 0.5 } });
    expect(report.notes[0]).toBe('1 row of gold.csv is no row of out.csv');
    work.write(
      'gold.jsonl',
      '{"id":"a","said":"x","truth":"negative"}\n{"id":"b","said":"x","truth":null}\n',
    );
    expect((await scored('out.csv', '--gold', 'gold.jsonl:truth')).scores).toMatchObject({ rows: 1 });
  });

  it('come from a file whose own column "row" is not the number of a row, by input.id', async () => {
    work.job({ input: { path: 'in.csv', only_new: true, id: 'id' }, answer: SURE }, 'by-id.yaml');
    work.write('indexed.csv', 'row,id,truth\n1,a,positive\n2,b,negative\n3,c,neutral\n');
    const report = await scored('out.csv', '--gold', 'indexed.csv:truth', '--job', 'by-id.yaml');
    expect(report.scores).toMatchObject({ rows: 3, abstained: 1, answered: 2, answered_accuracy: 1 });
    expect(report.notes.join()).not.toContain('indexed.csv');
    work.write('indexed.csv', 'row,id,truth\n2,a,positive\n3,b,negative\n4,c,neutral\n');
    expect((await scored('out.csv', '--gold', 'indexed.csv:truth', '--job', 'by-id.yaml')).scores).toEqual(
      report.scores,
    );
    // The file for review has an id that a spreadsheet may have changed.
    work.write('filled.csv', 'row,id,text,abstained,answer\n2,0b,negative,true,negative\n');
    expect((await scored('out.csv', '--gold', 'filled.csv', '--job', 'by-id.yaml')).scores.rows).toBe(1);
  });

  it('come from JSONL whose first row does not have all columns', async () => {
    work.write('gold.jsonl', '{"id":"a"}\n{"id":"c","truth":"neutral"}\n');
    const { scores } = await scored('out.csv', '--gold', 'gold.jsonl:truth');
    expect(scores).toMatchObject({ rows: 1, accuracy: { value: 1 } });
    expect((await scored('out.csv', '--gold', 'gold.jsonl')).scores).toEqual(scores);
  });

  it.each([
    ['no column', ['--gold', 'Thruth'], 'out.csv has no such column; did you mean "Truth"?'],
    ['column of the answer', ['--gold', 'answer'], '--gold names "answer", but out.csv has no such column'],
    [
      'no label',
      ['--gold', 'id'],
      'line 2: column "id" has the text "a", which is none of the labels positive, negative, neutral, =odd; and so with 7 more cells',
    ],
    ['no file', ['--gold', 'none.csv'], 'none.csv does not exist'],
    [
      'no label in a file',
      ['--gold', 'bad.csv'],
      'bad.csv, line 3: column "answer" has the text "positve", which is no label; did you mean "positive"?; and so with 1 more cell',
    ],
    ['a row twice', ['--gold', 'twice.csv'], 'twice.csv, line 4: row 2 has a right answer in line 2 already'],
    [
      'no number of a row',
      ['--gold', 'odd.csv'],
      'odd.csv, line 2: column "row" has "two", which is no number of a row',
    ],
    [
      'a number of a row from 0',
      ['--gold', 'zero.csv'],
      'zero.csv, line 2: column "row" has "0", which is no number of a row',
    ],
    ['a line that is no JSON', ['--gold', 'broken.jsonl'], 'broken.jsonl: line 1 is no JSON object'],
    [
      'no row that matches',
      ['--gold', 'other.csv'],
      'none of the 1 row of other.csv that have a right answer is a row of out.csv, by the column "id"',
    ],
    [
      'an id that the output does not have',
      ['--gold', 'foreign.csv'],
      'foreign.csv names its rows by "key", but out.csv has no such column',
    ],
    [
      'several columns',
      ['--gold', 'wide.csv'],
      'wide.csv has no column "answer", and several others beside "row"',
    ],
    [
      'no such column in a file',
      ['--gold', 'wide.csv:truht'],
      '--gold names "truht", but wide.csv has no such column; did you mean "truth"?',
    ],
    [
      'nothing filled in',
      ['--gold', 'out.review.csv'],
      'no record of out.csv has a right answer in out.review.csv',
    ],
  ])('are refused: %s', async (_, args, message) => {
    work.write('bad.csv', 'row,answer\n1,positive\n2,positve\n3,x\n');
    work.write('twice.csv', 'row,answer\n2,positive\n3,positive\n2,positive\n');
    work.write('odd.csv', 'row,answer\ntwo,positive\n');
    work.write('zero.csv', 'row,answer\n0,positive\n1,negative\n');
    work.write('broken.jsonl', '{"id":\n{"id":"a","truth":"positive"}\n');
    work.write('other.csv', 'id,truth\nzz,positive\n');
    work.write('foreign.csv', 'key,truth\na,positive\n');
    work.write('wide.csv', 'row,truth,note\n1,positive,x\n');
    const { code, stdout, stderr } = await call('score', 'out.csv', ...args);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(message);
    expect(stdout).toBe('');
  });
});

describe('an output is refused', () => {
  beforeEach(begin);
  afterEach(end);

  const refused = async (message: string, ...args: string[]) => {
    const { code, stderr } = await call('score', ...args);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(message);
  };

  it('that is not there, not finished, or not ours', async () => {
    work.write('part.csv.part', 'id,status,answer\n');
    work.write('foreign.csv', ROWS);
    work.job({ input: { path: 'in.csv' }, answer: SURE });
    await refused('out.csv does not exist', 'out.csv');
    await refused('the run that writes part.csv is not finished', 'part.csv');
    await refused('the run that writes part.csv is not finished', 'part.csv.part');
    await refused('no summary beside foreign.csv names its job file', 'foreign.csv');
    await refused('foreign.csv has no status, answer', 'foreign.csv', '--job', 'job.yaml');
    work.write('in.tsv', ROWS);
    await refused('in.tsv is no output of a run: those end in .csv or .jsonl', 'in.tsv');
    work.write('folder.csv/x', '');
    await refused('folder.csv is no output of a run: it is a folder', 'folder.csv');
  });

  it('that was edited, or whose job has nothing to score by', async () => {
    await run({ answer: SURE, output: { path: 'out.csv' } });
    const whole = work.read('out.csv');
    work.write('out.csv', whole.replace('completed', 'done'));
    await refused('line 2: the status is "done"', 'out.csv');
    work.write('out.csv', `${whole}x,y\n`);
    await refused('is not as the run wrote it', 'out.csv');
    work.write('out.csv', whole);

    work.job({ input: { path: 'in.csv' }, answer: { labels: LABELS } });
    await refused('job.yaml has no answer.gold', 'out.csv');
    work.job({ input: { path: 'in.csv' } }, 'text.yaml');
    await refused('its answers are free text', 'out.csv', '--job', 'text.yaml');
    rmSync(work.path('job.yaml'));
    await refused('no job file job.yaml', 'out.csv');
    work.job({ input: { path: 'in.csv' }, answer: SURE }, 'moved.yaml');
    expect((await scored('out.csv', '--job', 'moved.yaml')).job).toBe('moved.yaml');
  });
});
