import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
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

describe('a job with gold', () => {
  let service: ScriptedService;
  let work: Workplace;
  beforeAll(async () => {
    service = await startScriptedService(({ prompt }) => ({
      json: completionBody({
        text: SAYS[prompt.slice('Review: '.length)] ?? ' {"city": "Rome", "amount": 5}',
      }),
    }));
  });
  afterAll(() => service.close());
  beforeEach(() => {
    work = new Workplace();
    work.write('reviews.csv', REVIEWS);
  });
  afterEach(() => work.remove());

  const store = oneStore();
  const env = () => ({ PROMPTMILL_BASE_URL: service.url, PROMPTMILL_API_KEY: 'a-key', ...store() });
  const job = (change: object = {}): string =>
    work.job({
      input: { path: 'reviews.csv', require: ['review'] },
      prompt: 'Review: {{ review }}',
      answer: { labels: ['positive', 'negative', 'neutral'], gold: 'Truth' },
      output: { path: 'out.csv' },
      ...change,
    });

  it('has scores in its summary and on the terminal, and sends none of its gold', async () => {
    const before = service.requests.length;
    const { code, stderr } = await work.call(['run', job()], env());
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
    for (const { text } of service.requests.slice(before)) expect(text).not.toMatch(/neutral|NEGATIVE/);
  });

  it('goes on with its scores where it stopped', async () => {
    const first = await work.call(['run', job(), '--limit', '3'], env());
    expect(first.code, first.stderr).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({ scores: { rows: 3, unanswered: 0 } });
    const all = await work.call(['run', job()], env());
    expect(all.code, all.stderr).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({
      scores: { rows: 5, unanswered: 1, confusion: { negative: { negative: 2 } } },
    });
    await work.call(['run', job({ output: { path: 'whole.csv' } })], env());
    expect(work.json('out.summary.json')['scores']).toEqual(work.json('whole.summary.json')['scores']);
  });

  it('ends with 4 when its scores are below what is asked, and stops when those of its first rows are', async () => {
    const asking = (accuracy: number) => ({
      answer: { labels: ['positive', 'negative', 'neutral'], gold: 'Truth', require: { accuracy, f1: 0.5 } },
    });
    const missed = 'the accuracy of 5 rows with gold is 60.0 %, where answer.require.accuracy asks for 75 %';
    const below = await work.call(['run', job(asking(0.75))], env());
    expect(below.code, below.stderr).toBe(4);
    expect(below.stderr.replaceAll('\n', ' ')).toContain(`Finished, but below_require: ${missed}. See `);
    expect(work.json('out.summary.json')['missed']).toContain(missed);
    const reached = await work.call(['run', job({ ...asking(0.6), output: { path: 'b.csv' } })], env());
    expect(reached.code, reached.stderr).toBe(0);

    const before = service.calls();
    const limits = { canary: 3, concurrency: 1 };
    const stopped = await work.call(
      ['run', job({ ...asking(0.75), limits, output: { path: 'c.csv' } })],
      env(),
    );
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr.replaceAll('\n', ' ')).toContain('the accuracy of 3 rows with gold is 66.6 %');
    expect(service.calls() - before).toBe(3);
  });

  it('has none without gold', async () => {
    await work.call(['run', job({ answer: { labels: ['positive', 'negative'] } })], env());
    expect(work.json('out.summary.json')).not.toHaveProperty('scores');
  });

  it('compares JSON by property', async () => {
    const lines = [
      { id: 1, truth: { city: 'Rome', amount: 5 } },
      { id: 2, truth: '{"amount": 6}' },
      { id: 3 },
      { id: 4, truth: { city: 'Rome' } },
    ];
    work.write('rows.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const schema = { type: 'object', properties: { city: { type: 'string' }, amount: { type: 'number' } } };
    const file = job({
      input: { path: 'rows.jsonl' },
      prompt: '{{ id }}',
      answer: { json: schema, gold: 'truth' },
      output: { path: 'out.jsonl' },
    });
    const { code, stderr } = await work.call(['run', file], env());
    expect(code, stderr).toBe(0);
    expect(work.json('out.summary.json')['scores']).toMatchObject({
      rows: 3,
      accuracy: { value: 2 / 3 },
      macro_f1: null,
      labels: {},
      properties: { city: { rows: 2, exact: 1 }, amount: { rows: 2, exact: 0.5 } },
    });
    expect(stderr).toContain('of 3 rows\n                city    100.0 % exact of 2 rows\n');
  });

  it.each([
    [
      'a value that is no label',
      REVIEWS.replace('NEGATIVE', 'negativ'),
      'reviews.csv, line 3: column "Truth"',
    ],
    ['a column that is not there', REVIEWS.replace('Truth', 'Truht'), 'did you mean "Truht"?'],
  ])('is refused for %s before anything is sent', async (_, content, message) => {
    const before = service.calls();
    work.write('reviews.csv', content);
    const { code, stderr } = await work.call(['run', job()], env());
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect((await work.call(['check', job()], env())).stderr).toContain(message);
    expect(service.calls()).toBe(before);
  });

  it('is warned by check when its prompt has the gold in it', async () => {
    const told = await work.call(['check', job({ prompt: 'Review: {{ review }} ({{ Truth }})' })], env());
    expect(told.code, told.stderr).toBe(0);
    expect(told.stderr).toMatch(/5 gold_in_prompt\n +line 2: the prompt has the right answer in it/);
    expect((await work.call(['check', job()], env())).stderr).not.toContain('gold');
  });
});
