import { existsSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { Halt } from '../../src/core/halt.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** Text of the answer, and the probabilities of what might begin it; none where the service sends no log probabilities. */
const ANSWERS: readonly (readonly [text: string, probabilities: Readonly<Record<string, number>> | null])[] =
  [
    [' positive', { ' positive': 0.95, ' negative': 0.05 }],
    [' negative', { ' negative': 0.6, ' pos': 0.4 }],
    ['\n\nNeutral.', { Neutral: 0.9, Positive: 0.05, Negative: 0.05 }],
    [' =good, I guess', { ' good': 0.9 }],
    [' positive', null],
  ];

const LABELS = { labels: ['positive', 'negative', 'neutral'], confidence: 'logprobs' };

const store = oneStore();

describe('confidence and abstention', () => {
  let place: MemoryPlace;
  let work: Workplace;
  /** The answer to row 3 waits for it. */
  let held: Promise<void> | null;
  beforeEach(() => {
    place = new MemoryPlace();
    work = place.work;
    work.write('in.csv', 'id,note\n1,"a, b"\n2,"c\nd"\n3,e\n4,=f\n5,g\n');
    held = null;
    place.script = async ({ prompt }) => {
      if (prompt === 'row 3') await held;
      const [text, probabilities] = ANSWERS[Number(prompt.split(' ')[1]) - 1] ?? ['', null];
      const body = completionBody({ text });
      const tokens = text.split(/(?<=\n\n)|(?=\.)/);
      const tops = tokens.map((token) =>
        token === '\n\n' ? { '\n\n': -0.1 } : logarithms(probabilities ?? {}),
      );
      const logprobs = { tokens, token_logprobs: tokens.map(() => null), top_logprobs: tops };
      const choices = body.choices.map((choice) => ({ ...choice, logprobs: probabilities && logprobs }));
      return { json: { ...body, choices } };
    };
  });
  afterEach(() => work.remove());

  const written = (job: object): string => work.job({ input: { path: 'in.csv' }, ...job });
  const run = (job: object, flags: RunFlags = {}) => place.run(written(job), flags);

  it('says of each label how sure the model is, and asks for nothing but one call with log probabilities', async () => {
    const ended = await run({ answer: LABELS, output: { path: 'out.csv', probabilities: true } });
    expect(ended.code, ended.said).toBe(0);
    expect(place.machine.calls()).toBe(5);
    for (const { body } of place.machine.requests)
      expect(body).toMatchObject({ logprobs: 5, temperature: 0 });
    const records = work.records('out.csv');
    expect(
      records.map(({ answer, confidence, p_positive, p_negative, p_neutral }) => [
        answer,
        confidence,
        [p_positive, p_negative, p_neutral],
      ]),
    ).toEqual([
      ['positive', '0.95', ['0.95', '0.05', '0']],
      ['negative', '0.6', ['0.4', '0.6', '0']],
      ['neutral', '0.9', ['0.05', '0.05', '0.9']],
      ['', '', ['', '', '']],
      ['positive', '', ['', '', '']],
    ]);
    expect(Object.keys(records[0] ?? {}).slice(-4)).toEqual([
      'confidence',
      'p_positive',
      'p_negative',
      'p_neutral',
    ]);
    // Row 4 is no label; row 5 is one without log probabilities.
    expect(work.json('out.summary.json')).toMatchObject({ answers_without_confidence: 1 });
    expect(ended.shown).toContain('1 label without a confidence: the log probabilities are missing');
    expect(existsSync(work.path('out.review.csv'))).toBe(false);
  });

  it('has them in JSONL as well', async () => {
    const output = { path: 'out.jsonl', probabilities: true };
    const ended = await run({ answer: { ...LABELS, abstain_below: 0.8 }, output });
    expect(ended.code, ended.said).toBe(0);
    expect(
      work
        .lines('out.jsonl')
        .map(({ answer, confidence, answer_probabilities, abstained }) => [
          answer,
          confidence,
          answer_probabilities,
          abstained,
        ]),
    ).toEqual([
      ['positive', 0.95, { positive: 0.95, negative: 0.05, neutral: 0 }, false],
      [null, 0.6, { positive: 0.4, negative: 0.6, neutral: 0 }, true],
      ['neutral', 0.9, { positive: 0.05, negative: 0.05, neutral: 0.9 }, false],
      [null, null, null, false],
      [null, null, null, true],
    ]);
    expect(work.records('out.review.csv').map(({ row, input, text }) => [row, input, text])).toEqual([
      ['2', '{"id":"2","note":"c\\nd"}', ' negative'],
      ['4', '{"id":"4","note":"=f"}', "' =good, I guess"],
      ['5', '{"id":"5","note":"g"}', ' positive'],
    ]);
  });

  it('leaves labels out of which the model is not sure, and shows those rows to a person', async () => {
    const job = { answer: { ...LABELS, abstain_below: 0.8 }, output: { path: 'out.csv' } };
    const service = await startScriptedService(place.script);
    const ended = await work.call(['run', written(job)], { PROMPTMILL_BASE_URL: service.url, ...store() });
    await service.close();
    expect(ended.code, ended.stderr).toBe(0);
    const records = work.records('out.csv');
    expect(records.map(({ status }) => status)).toEqual(Array(5).fill('completed'));
    expect(records.map(({ answer, abstained }) => [answer, abstained])).toEqual([
      ['positive', 'false'],
      ['', 'true'],
      ['neutral', 'false'],
      ['', 'false'],
      ['', 'true'],
    ]);
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({
      answers: { positive: 1, neutral: 1, '(abstained)': 2, '(none)': 1 },
      answers_abstained: 2,
    });
    const review = work.records('out.review.csv');
    expect(Object.keys(review[0] ?? {})).toEqual([
      'row',
      'id',
      'note',
      'answer',
      'text',
      'error_code',
      'error_message',
      'confidence',
      'abstained',
    ]);
    expect(review.map(({ row, note, answer, text }) => [row, note, answer, text])).toEqual([
      ['2', 'c\nd', '', 'negative'],
      ['4', "'=f", '', "'=good, I guess"],
      ['5', 'g', '', 'positive'],
    ]);
    expect(ended.stderr).toMatch(/review +out\.review\.csv/);
  });

  it('never writes over what people filled in for review', async () => {
    const job = { answer: { ...LABELS, abstain_below: 0.8 }, output: { path: 'out.csv' } };
    // Also a run over the first rows that goes on.
    expect((await run(job, { limit: 3 })).code).toBe(0);
    expect(existsSync(work.path('out.review.csv'))).toBe(false);
    work.write('out.review.csv', 'mine');
    const taken = await run(job);
    expect(taken.code).toBe(3);
    expect(taken.said).toContain('out.review.csv was not there when the run began');
    expect(work.read('out.review.csv')).toBe('mine');
    rmSync(work.path('out.review.csv'));
    expect((await run(job)).code).toBe(0);
    expect(work.records('out.review.csv')).toHaveLength(3);
    rmSync(work.path('out.csv'));
    const again = await run(job);
    expect(again.code).toBe(2);
    expect(again.said).toContain('out.review.csv exists');
    expect((await run(job, { overwrite: true })).code).toBe(0);
  });

  it('keeps its rows for review from taking the place of its input, and minds no such file without them', async () => {
    const input = { path: 'out.review.csv' };
    work.write('out.review.csv', 'id\n1\n');
    const job = { input, answer: { ...LABELS, abstain_below: 0.8 }, output: { path: 'out.csv' } };
    const ended = await run(job, { overwrite: true });
    expect(ended.code).toBe(2);
    expect(ended.said).toContain('are the same file');
    expect((await run({ ...job, answer: LABELS })).code).toBe(0);
    expect(work.read('out.review.csv')).toBe('id\n1\n');
  });

  it('is no success when the model is sure of nothing', async () => {
    const job = { answer: { ...LABELS, abstain_below: 1 }, output: { path: 'out.csv' } };
    const ended = await run(job);
    expect(ended.code, ended.said).toBe(4);
    expect(ended.shown).toContain('none of 5 completed rows has an answer: 4 abstained');
    const canary = { ...job, output: { path: 'two.csv' }, limits: { canary: 2 } };
    expect((await run(canary)).code).toBe(3);
  });

  it('goes on however many rows abstain, unless the job says how many may', async () => {
    const job = { answer: { ...LABELS, abstain_below: 0.8 }, output: { path: 'out.csv' } };
    // Of five rows one is invalid, and two abstain.
    const limits = { canary: 2, stop_after_failures: 2 };
    expect((await run({ ...job, limits })).code).toBe(0);

    const asking = {
      ...job,
      answer: { ...job.answer, require: { answered: 0.5 } },
      output: { path: 'two.csv' },
    };
    const ended = await run(asking);
    expect(ended.code, ended.said).toBe(4);
    expect(ended.shown).toContain(
      '40.0 % of 5 completed rows have an answer, where answer.require.answered asks for 50 % (2 abstained, 1 answer_not_a_label)',
    );
    const ahead = { ...asking, answer: { ...job.answer, require: { answered: 0.6 } } };
    const stopped = await run({ ...ahead, output: { path: 'three.csv' }, limits: { canary: 2 } });
    expect(stopped.code, stopped.said).toBe(3);
    expect(stopped.shown).toContain('(1 abstained). Nothing else was sent.');

    // Row 3 is answered when the run has seen that row 2 abstained.
    const most = { stop_after_failures: { abstained: 1 }, concurrency: 1, chunk_size: 1 };
    const path = work.job({ input: { path: 'in.csv' }, ...job, output: { path: 'four.csv' }, limits: most });
    const halt = new Halt();
    held = new Promise((resolve) => halt.signal.addEventListener('abort', () => resolve()));
    const { code, said, summary } = await place.run(path, {}, halt);
    expect(code, said).toBe(3);
    expect(summary?.stopped).toMatch(
      /1 of [23] rows abstained, where limits\.stop_after_failures\.abstained is 1\. Raise the limit,/,
    );
  });

  it('a row that changes what the confidence is read from is not sent', async () => {
    const line = (prompt: string, more: object) =>
      `${JSON.stringify({ custom_id: prompt, body: { prompt, ...more } })}\n`;
    work.write('in.jsonl', line('row 1', {}) + line('row 2', { temperature: 1 }));
    const job = {
      input: { path: 'in.jsonl' },
      prompt: '{{ custom_id }}',
      answer: LABELS,
      output: { path: 'out.csv' },
    };
    expect((await run(job)).code).toBe(1);
    expect(work.records('out.csv').map(({ status, error_message }) => [status, error_message])).toEqual([
      ['completed', ''],
      ['failed', "temperature cannot be the row's own where answer.confidence is logprobs"],
    ]);
  });

  it.each([
    [{ answer: { labels: ['a', 'b'], abstain_below: 0.5 } }, 'answer.abstain_below needs answer.confidence'],
    [{ answer: { ...LABELS, abstain_below: 1.5 } }, 'answer.abstain_below must be at most 1'],
    [{ answer: { ...LABELS, confidence: 'entropy' } }, 'answer.confidence must be logprobs'],
    [{ answer: { ...LABELS, multiple: true } }, 'answer.multiple cannot be true'],
    [{ answer: LABELS, parameters: { temperature: 0.7 } }, 'parameters.temperature must be 0'],
    [{ answer: LABELS, parameters: { logprobs: 2 } }, 'parameters.logprobs must be 5'],
    [{ answer: LABELS, row_parameters: ['temperature'] }, 'row_parameters'],
    [{ output: { probabilities: true } }, 'output.probabilities needs answer.confidence'],
    [
      { answer: { labels: ['not good', 'not bad'], confidence: 'logprobs' } },
      'the labels "not good" and "not bad" both begin with the token "not"',
    ],
    [
      { answer: { ...LABELS, abstain_below: 0.5 }, output: { path: 'o.csv', columns: ['id', 'answer'] } },
      'output.columns',
    ],
  ])('refuses %j before anything is sent', async (job, message) => {
    const ended = await run(job);
    expect(ended.code, ended.said).toBe(2);
    expect(ended.said).toContain(message);
    expect(place.machine.calls()).toBe(0);
  });
});

const logarithms = (probabilities: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(probabilities).map(([token, p]) => [token, Math.log(p)]));
