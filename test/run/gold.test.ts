import { afterAll, describe, expect, it } from 'vitest';
import { retryOf } from '../../src/library/output-job.js';
import { MemoryMachine, memoryRun } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** What the model says of each review. */
const SAYS: { readonly [review: string]: string } = {
  'great shoes': ' Positive',
  'fell apart': ' negative',
  'it is a lamp': ' positive',
  'no idea': ' mauve',
  'so good': ' positive',
  'never again': ' negative',
};

const REVIEWS = `review,Truth
great shoes,positive
fell apart,NEGATIVE
it is a lamp, neutral
no idea,neutral
,positive
so good,
never again,negative
`;

const script: Script = ({ prompt }) => ({
  answer: { text: SAYS[prompt.slice('Review: '.length)] ?? ' {"city": "Rome", "amount": 5}' },
});

const LABELS = ['positive', 'negative', 'neutral'];
const JOB = {
  input: { require: ['review'] },
  prompt: 'Review: {{ review }}',
  answer: { labels: LABELS, gold: 'Truth' },
};

describe('a job with gold', () => {
  const work = new Workplace();
  afterAll(() => work.remove());
  const store = oneStore();
  const job = (change: object = {}): string =>
    work.job({ ...JOB, input: { path: work.write('reviews.csv', REVIEWS), require: ['review'] }, ...change });

  it('has scores in its summary and on the terminal, and sends none of its gold', async () => {
    const service = await startScriptedService(script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const { code, stderr } = await work.call(['run', job({ output: { path: 'out.csv' } })], env);
    await service.close();
    expect(code, stderr).toBe(0);
    expect(work.json('out.summary.json')['scores']).toEqual({
      rows: 5,
      unanswered: 1,
      accuracy: {
        value: 0.6,
        low: expect.closeTo(0.2307, 4),
        high: expect.closeTo(0.8824, 4),
      },
      majority: { label: 'negative', accuracy: 0.4 },
      abstained: 0,
      answered: 4,
      answered_accuracy: 0.75,
      macro_f1: expect.closeTo((2 / 3 + 1 + 0) / 3, 10),
      kappa: expect.closeTo((0.6 - 6 / 25) / (1 - 6 / 25), 10),
      brier: null,
      ece: null,
      labels: {
        negative: { precision: 1, recall: 1, f1: 1, support: 2 },
        neutral: { precision: 0, recall: 0, f1: 0, support: 2 },
        positive: { precision: 0.5, recall: 1, f1: expect.closeTo(2 / 3, 10), support: 1 },
      },
      confusion: {
        negative: { negative: 2 },
        neutral: { positive: 1, '(none)': 1 },
        positive: { positive: 1 },
      },
      confusions: [
        { gold: 'neutral', answer: '(none)', rows: 1, examples: [4] },
        { gold: 'neutral', answer: 'positive', rows: 1, examples: [3] },
      ],
      calibration: [],
      properties: {},
    });
    expect(stderr).toContain(`\
scores          accuracy 60.0 % (23.1 % to 88.2 %) of 5 rows, macro F1 0.556, kappa 0.474
                always "negative": 40.0 %; this run: 60.0 %
                1 more row with gold has no answer
labels          label     precision   recall     F1  support
                negative    100.0 %  100.0 %  1.000        2
                neutral       0.0 %    0.0 %  0.000        2
                positive     50.0 %  100.0 %  0.667        1
confusion       gold \\ answer  negative  neutral  positive  (none)
                negative              2        0         0       0
                neutral               0        0         1       1
                positive              0        0         1       0
`);
    for (const { text } of service.requests) expect(text).not.toMatch(/neutral|NEGATIVE/);
  });

  it('goes on with its scores where it stopped', async () => {
    const machine = new MemoryMachine(script);
    const continued = { ...JOB, output: { path: work.path('continued.csv') } };
    const first = await machine.run(continued, REVIEWS, { flags: { limit: 3 } });
    expect(first).toMatchObject({ code: 0, summary: { scores: { rows: 3, unanswered: 0 } } });
    const all = await machine.run(continued, REVIEWS);
    expect(all).toMatchObject({
      code: 0,
      summary: { scores: { rows: 5, unanswered: 1, confusion: { negative: { negative: 2 } } } },
    });
    expect(all.summary.scores).toEqual((await machine.run(JOB, REVIEWS)).summary.scores);
  });

  it('has scores by a map of ratings, which a retry counts again', async () => {
    const machine = new MemoryMachine(({ prompt, count }) =>
      prompt === 'row 1' && count === 1
        ? { status: 400, json: { error: { message: 'not now' } } }
        : { answer: { text: ' good' } },
    );
    const output = work.path('rated.csv');
    const gold = { column: 'stars', map: { good: [4, 5], bad: 1 } };
    const rated = { answer: { labels: ['good', 'bad'], gold }, output: { path: output } };
    const rows = [5, 4, 1].map((stars, i) => ({ id: i + 1, stars }));
    const { summary } = await machine.run(rated, rows);
    expect(summary.scores).toMatchObject({ rows: 2, unanswered: 1 });
    const { flags, work: retry } = retryOf(output, {}, { job: 'job.yaml' });
    const mended = await machine.run(rated, rows, { flags, work: retry });
    expect(mended.summary.scores).toMatchObject({
      rows: 3,
      unanswered: 0,
      accuracy: { value: expect.closeTo(2 / 3, 3) },
    });
  });

  it('ends with 4 when its scores are below what is asked, and stops when those of its first rows are', async () => {
    const asking = (accuracy: number) => ({
      ...JOB,
      answer: { labels: LABELS, gold: 'Truth', require: { accuracy, f1: 0.5 } },
    });
    const below = await memoryRun(asking(0.75), REVIEWS, script);
    expect(below.code).toBe(4);
    expect(below.summary.missed).toContain(
      'the accuracy of 5 rows with gold is 60.0 %, where answer.require.accuracy asks for 75 %',
    );
    expect((await memoryRun(asking(0.6), REVIEWS, script)).code).toBe(0);

    const machine = new MemoryMachine(script);
    const stopped = await machine.run({ ...asking(0.75), limits: { canary: 3, concurrency: 1 } }, REVIEWS);
    expect(stopped.code).toBe(3);
    expect(stopped.summary.stopped).toContain('the accuracy of 3 rows with gold is 66.6 %');
    expect(machine.calls()).toBe(3);
  });

  it('has none without gold', async () => {
    const { summary } = await memoryRun({ ...JOB, answer: { labels: LABELS } }, REVIEWS, script);
    expect(summary).not.toHaveProperty('scores');
  });

  it('compares JSON by property', async () => {
    const rows = [
      { id: 1, truth: { city: 'Rome', amount: 5 } },
      { id: 2, truth: '{"amount": 6}' },
      { id: 3 },
      { id: 4, truth: { city: 'Rome' } },
    ];
    const schema = { type: 'object', properties: { city: { type: 'string' }, amount: { type: 'number' } } };
    const { code, summary } = await memoryRun({ answer: { json: schema, gold: 'truth' } }, rows, script);
    expect(code).toBe(0);
    expect(summary.scores).toMatchObject({
      rows: 3,
      accuracy: { value: 2 / 3 },
      macro_f1: null,
      labels: {},
      properties: { city: { rows: 2, exact: 1 }, amount: { rows: 2, exact: 0.5 } },
    });
  });

  it.each([
    ['a value that is no label', REVIEWS.replace('NEGATIVE', 'negativ'), 'line 3: column "Truth"'],
    ['a column that is not there', REVIEWS.replace('Truth', 'Truht'), 'did you mean "Truht"?'],
  ])('is refused for %s before anything is sent', async (_, content, message) => {
    const machine = new MemoryMachine(script);
    await expect(machine.run(JOB, content)).rejects.toMatchObject({
      exit: 2,
      message: expect.stringContaining(message),
    });
    expect(machine.calls()).toBe(0);
    const file = job();
    work.write('reviews.csv', content);
    const { stderr } = await work.call(['check', file]);
    expect(stderr).toContain(message);
    expect(stderr).toContain('reviews.csv');
  });

  it('is warned by check when its prompt has the gold in it', async () => {
    const told = await work.call(['check', job({ prompt: 'Review: {{ review }} ({{ Truth }})' })]);
    expect(told.code, told.stderr).toBe(0);
    expect(told.stderr).toMatch(/5 gold_in_prompt\n +line 2: the prompt has the right answer in it/);
    expect((await work.call(['check', job()])).stderr).not.toContain('gold');
  });
});
