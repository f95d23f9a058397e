import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { MemoryMachine, memoryRun } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, promptsOf, type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const safe = (severity: string) => ({ hate: { filtered: false, severity } });

/** The choices for each row: a text, or `null` for one that a filter blocked. */
const CHOICES: readonly (readonly (string | null)[])[] = [
  [' positive', ' positive', ' Positive.', ' positive', ' positive'],
  [' neutral', ' negative', ' negative', ' positive', ' negative'],
  [' mixed', null, ' =positive', ' positive', ' negative'],
  [' mixed', ' unclear', ' mixed', ' unclear', ' mixed'],
  [null, null, null, null, null],
];

/** Answers to all prompts of a request, each choice at its index: prompt × n + choice. */
function answer(prompts: readonly string[], n: number) {
  const choices = prompts.flatMap((prompt, p) =>
    (CHOICES[Number(prompt.split(' ')[1]) - 1] ?? []).slice(0, n).map((text, i) => ({
      text: text ?? '',
      index: p * n + i,
      finish_reason: text === null ? 'content_filter' : 'stop',
      logprobs: null,
      content_filter_results: safe(i === 0 ? 'safe' : 'low'),
    })),
  );
  const completion_tokens = 2 * choices.length;
  const usage = { prompt_tokens: 10 * prompts.length, completion_tokens };
  return {
    ...completionBody(),
    choices,
    usage: { ...usage, total_tokens: usage.prompt_tokens + completion_tokens },
  };
}

const VOTES = { labels: ['positive', 'negative', 'neutral'], votes: 5 };

const store = oneStore();
const at = (url: string) => ({ PROMPTMILL_BASE_URL: url, ...store() });

const script: Script = (request) => ({ json: answer(promptsOf(request), Number(request.body['n'] ?? 1)) });
const ROWS = Array.from({ length: 5 }, (_, i) => ({ id: i + 1 }));

describe('votes', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it.each([1, 2])(
    'of one request with n are the answer and its confidence (%i rows in a request)',
    async (rows) => {
      const machine = new MemoryMachine(script);
      const output = { path: work.path(`out-${rows}.csv`), probabilities: true };
      const limits = { prompts_per_request: rows };
      const { code, summary } = await machine.run({ answer: VOTES, output, limits }, ROWS);
      expect(code).toBe(0);
      expect(machine.calls()).toBe(rows === 1 ? 5 : 3);
      for (const { body } of machine.requests) {
        expect(body).toMatchObject({ n: 5 });
        expect(Object.keys(body).sort()).toEqual(['n', 'prompt']);
      }
      const records = work.records(`out-${rows}.csv`);
      expect(
        records.map(({ status, answer, text, confidence, p_positive, p_negative, p_neutral }) => [
          ...[status, answer, text, confidence],
          [p_positive, p_negative, p_neutral],
        ]),
      ).toEqual([
        ['completed', 'positive', 'positive', '1', ['1', '0', '0']],
        ['completed', 'negative', 'negative', '0.6', ['0.2', '0.6', '0.2']],
        ['completed', 'positive', "'=positive", '0.4', ['0.4', '0.2', '0']],
        ['completed', '', 'mixed', '', ['', '', '']],
        ['filtered', '', '', '', ['', '', '']],
      ]);
      expect(records.map(({ answer_source }) => answer_source)).toEqual([...Array(4).fill('voted'), '']);
      // Of the choice that is shown.
      expect(records.map((record) => record['completion_hate_severity'])).toEqual([
        ...['safe', 'low', 'low', 'safe', 'safe'],
      ]);
      expect(summary).toMatchObject({
        rows: { completed: 4, filtered: 1 },
        answers: { positive: 2, negative: 1, '(none)': 2 },
        usage: { prompt_tokens: 50, completion_tokens: 50, total_tokens: 100 },
        answer_sources: { read: 0, voted: 3 },
        calls: { retried: 0, repeated: 0 },
      });
      expect(summary).not.toHaveProperty('answers_without_confidence');
    },
  );

  it('are taken out of the answers by source again where labels are left out for an accuracy', async () => {
    const isSure = (id: number): boolean => id <= 30;
    const rows = Array.from({ length: 33 }, (_, i) => ({
      id: i + 1,
      truth: isSure(i + 1) ? 'positive' : 'negative',
    }));
    const job = {
      answer: { ...VOTES, gold: 'truth', abstain: { accuracy: 0.95 } },
      output: { path: work.path('left-out.csv') },
    };
    const { code, summary } = await memoryRun(job, rows, ({ prompt }) => {
      const texts = Array.from({ length: 5 }, (_, i) =>
        i < 3 || isSure(Number(prompt.split(' ')[1])) ? ' positive' : ' negative',
      );
      const [choice] = completionBody().choices;
      return {
        json: { ...completionBody(), choices: texts.map((text, index) => ({ ...choice, text, index })) },
      };
    });
    expect(code).toBe(0);
    expect(summary).toMatchObject({
      answers: { positive: 30, '(abstained)': 3 },
      answer_sources: { read: 0, voted: 30 },
    });
  });

  it.each([
    [
      'labels',
      { ...VOTES, abstain_below: 0.5 },
      ['positive', 'negative', 'positive', 'neutral', 'neutral'],
      2,
    ],
    ['numbers', { number: { min: 1, max: 5 }, votes: 3 }, ['4', '4', '2', '1', '1'], 3],
  ])('have scores that `score` finds in the output again: %s', async (kind, answer, truth, right) => {
    work.write('gold.csv', `id,Truth\n${truth.map((each, i) => `${i + 1},${each}`).join('\n')}\n`);
    const stars: Script = ({ prompt }) => {
      const said = [
        ['4', '4', '3'],
        ['4/5', '5', '4'],
        ['2', '9', 'x'],
        ['2', '3', '3'],
        ['x', 'x', 'x'],
      ];
      const texts = said[Number(prompt.split(' ')[1]) - 1] ?? [];
      return {
        json: { ...completionBody(), choices: texts.map((text) => ({ text, finish_reason: 'stop' })) },
      };
    };
    const service = await startScriptedService(kind === 'labels' ? script : stars);
    try {
      const path = work.job({
        input: { path: 'gold.csv' },
        answer: { ...answer, gold: 'Truth' },
        output: { path: `${kind}.csv`, probabilities: kind === 'labels' },
      });
      const env = at(service.url);
      const ended = await work.call(['run', path], env);
      expect(ended.code, ended.stderr).toBe(0);
      const { scores } = work.json(`${kind}.summary.json`) as { scores: Record<string, number | object> };
      const bins = scores['calibration'] as { rows: number; accuracy: number }[];
      // Also of a label that was left out.
      expect(bins.reduce((sum, bin) => sum + bin.rows * bin.accuracy, 0)).toBeCloseTo(
        right + (kind === 'labels' ? 1 : 0),
      );
      const again = await work.call(['score', `${kind}.csv`, '--json'], env);
      expect(again.code, again.stderr).toBe(0);
      const brier = kind === 'labels' ? expect.closeTo(Number(scores['brier']), 10) : null;
      expect(JSON.parse(again.stdout).scores).toEqual({ ...scores, brier });
    } finally {
      await service.close();
    }
  });

  it('are carried over into the next run, and come to the same', async () => {
    const machine = new MemoryMachine(script);
    const job = { input: { only_new: true }, answer: VOTES };
    const before = await machine.run(job, ROWS);
    const after = await machine.run(job, ROWS);
    expect([before.code, after.code]).toEqual([0, 0]);
    expect(machine.calls()).toBe(5);
    const said = ({ lines }: typeof before) =>
      lines.map(({ answer, text, confidence }) => [answer, text, confidence]);
    expect(said(after)).toEqual(said(before));
    expect(after.lines.map(({ carried_from }) => carried_from)).toEqual(Array(5).fill(before.summary.run));
  });

  it('are asked for again, all of them, where none is an answer', async () => {
    const on_invalid = { ask_again: 2, prompt: 'row 2 now: {{ prompt }}, {{ answer }}' };
    const machine = new MemoryMachine(script);
    const { code, lines } = await machine.run({ answer: { ...VOTES, on_invalid } }, ROWS);
    expect(code).toBe(0);
    expect(machine.requests.slice(5).map(({ body }) => body)).toEqual([
      { prompt: 'row 2 now: row 4, mixed', n: 5 },
    ]);
    // Rows 2 and 3 have invalid votes beside valid ones, and row 5 is filtered.
    expect(
      lines.map(({ answer, confidence, usage, answer_source }) => [
        ...[answer, confidence, usage.completion_tokens, answer_source],
      ]),
    ).toEqual([
      ['positive', 1, 10, 'voted'],
      ['negative', 0.6, 10, 'voted'],
      ['positive', 0.4, 10, 'voted'],
      ['negative', 0.6, 20, 'asked_again'],
      [null, null, 10, null],
    ]);
  });

  it('a row that changes how choices are drawn is not sent', async () => {
    const own = [{}, { n: 1 }, { temperature: 0 }, { max_tokens: 3 }];
    const rows = own.map((more, i) => ({ body: { prompt: `row ${i + 1}`, ...more } }));
    const { code, lines } = await memoryRun({ prompt: undefined, answer: VOTES }, rows, script);
    expect(code).toBe(1);
    expect(lines.map(({ error }) => error?.message)).toEqual([
      undefined,
      "n cannot be the row's own where answer.votes is given",
      "temperature cannot be the row's own where answer.votes is given",
      expect.stringContaining('is none of the labels'),
    ]);
  });

  it('a server that does not know n stops the run', async () => {
    const machine = new MemoryMachine();
    const many = Array.from({ length: 30 }, (_, i) => ({ id: i }));
    const { code, summary } = await machine.run({ answer: VOTES, limits: { concurrency: 2 } }, many);
    expect(code).toBe(3);
    expect(summary.stopped).toContain('the answer has one choice, and 5 are asked for');
    // Some rows may come again before ten others have been called.
    expect(machine.calls()).toBeLessThan(30);
  });

  it.each([
    [{ answer: { ...VOTES, votes: 1 } }, 'answer.votes must be a whole number from 2 to 128'],
    [{ answer: { ...VOTES, votes: 129 } }, 'answer.votes must be a whole number from 2 to 128'],
    [{ answer: { ...VOTES, votes: 2.5 } }, 'answer.votes must be a whole number from 2 to 128'],
    [{ answer: { ...VOTES, confidence: 'logprobs' } }, 'answer.votes cannot stand beside answer.confidence'],
    [{ answer: { ...VOTES, multiple: true } }, 'answer.multiple cannot be true where answer.votes is given'],
    [{ answer: { json: {}, votes: 5 } }, 'answer has votes and json: remove one of them'],
    [
      { answer: VOTES, parameters: { temperature: 0 } },
      'parameters.temperature must be above 0, or left out',
    ],
    [{ answer: VOTES, parameters: { n: 1 } }, 'parameters.n must be left out where answer.votes is given'],
    [{ answer: VOTES, parameters: { best_of: 9 } }, 'parameters.best_of must be left out'],
    [{ answer: VOTES, parameters: { logprobs: 2 } }, 'parameters.logprobs must be left out'],
    [
      { answer: VOTES, row_parameters: ['temperature'] },
      "entry 1 of row_parameters cannot be the row's own where answer.votes",
    ],
    [
      { answer: { number: {}, votes: 3 }, output: { probabilities: true } },
      'output.probabilities needs answer.labels',
    ],
    [{ answer: VOTES, input: { dedupe: true } }, 'input.dedupe is true'],
  ])('refuses %j before anything is sent', async (job, message) => {
    const machine = new MemoryMachine(script);
    await expect(machine.run(job, ROWS)).rejects.toMatchObject({
      exit: 2,
      message: expect.stringContaining(message),
    });
    expect(machine.calls()).toBe(0);
  });
});

describe('votes by the emulator', () => {
  const ROWS = 60;
  const REVIEWS = ['I love it, perfect, great, comfortable!', 'Broke on day one.', 'Das ist Satz 1.'];
  let work: Workplace;
  let emulator: Emulator;
  beforeEach(async () => {
    work = new Workplace();
    emulator = await startEmulator({ latency: { baseMs: 5, perTokenMs: 0 } });
    const rows = Array.from({ length: ROWS }, (_, i) => `${i + 1},"${REVIEWS[i % 3]}"`);
    work.write('in.csv', `id,review\n${rows.join('\n')}\n`);
  });
  afterEach(async () => {
    await emulator.close();
    work.remove();
  });

  const run = async (job: object) => {
    const path = work.job({
      input: { path: 'in.csv' },
      prompt: 'Is review {{ id }} positive, negative or neutral?\nReview: {{ review }}\nAnswer:',
      parameters: { max_tokens: 4 },
      answer: VOTES,
      output: { path: 'out.csv' },
      ...job,
    });
    const key = emulator.keys[0] ?? '';
    return await work.call(['run', path, '--json'], {
      ...at(emulator.url),
      PROMPTMILL_API_KEY: key,
    });
  };

  it('differ where the text is unclear, and come to the same in every run', async () => {
    const ended = await run({});
    expect(ended.code, ended.stderr).toBe(0);
    const confidences = work.records('out.csv').map(({ confidence }) => Number(confidence));
    expect(new Set(confidences).size).toBeGreaterThan(2);
    const about = (review: number) =>
      confidences.filter((_, i) => i % 3 === review).reduce((a, b) => a + b) / 20;
    expect(about(0)).toBeGreaterThan(about(2));
    const first = work.records('out.csv').map(({ answer, text, confidence }) => [answer, text, confidence]);
    expect((await run({ output: { path: 'again.csv' } })).code).toBe(0);
    expect(
      work.records('again.csv').map(({ answer, text, confidence }) => [answer, text, confidence]),
    ).toEqual(first);
  });
});
