import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** What the model says of a row, how sure it is of that, and what is right; null where that is not known. */
interface Said {
  readonly text: string;
  /** Null where the service sends no log probabilities. */
  readonly confidence: number | null;
  readonly gold: string | null;
}

const times = (rows: number, said: Said): Said[] => Array.from({ length: rows }, () => said);

/** The surest 36 of the 44 rows with gold and a label are right but for one; of all 44 only 36 are. */
const ROWS: readonly Said[] = [
  ...times(20, { text: ' positive', confidence: 0.95, gold: 'positive' }),
  ...times(15, { text: ' negative', confidence: 0.85, gold: 'negative' }),
  ...times(1, { text: ' negative', confidence: 0.7, gold: 'positive' }),
  ...times(7, { text: ' neutral', confidence: 0.6, gold: 'negative' }),
  ...times(1, { text: ' positive', confidence: null, gold: 'positive' }),
  ...times(2, { text: ' whatever', confidence: 0.9, gold: 'negative' }),
  ...times(3, { text: ' positive', confidence: 0.99, gold: null }),
  ...times(4, { text: ' negative', confidence: 0.5, gold: null }),
];

const ANSWER = {
  labels: ['positive', 'negative', 'neutral'],
  confidence: 'logprobs',
  gold: 'right',
  abstain: { accuracy: 0.95 },
};

describe('answer.abstain with an accuracy', () => {
  const store = oneStore();
  let place: MemoryPlace;
  let work: Workplace;
  beforeEach(() => {
    place = new MemoryPlace();
    work = place.work;
    const lines = ROWS.map(({ gold }, i) => `${i + 1},"say ""no"", or\n${i}",${gold ?? ''}\n`);
    work.write('in.csv', `id,note,right\n${lines.join('')}`);
    place.script = ({ prompt }) => {
      const { text, confidence } = ROWS[Number(prompt.split(' ')[1]) - 1] ?? { text: '', confidence: null };
      return { json: completionBody({ text, confidence }) };
    };
  });
  afterEach(() => work.remove());

  const written = (job: object): string =>
    work.job({ input: { path: 'in.csv' }, output: { path: 'out.csv' }, answer: ANSWER, ...job });
  const run = (job: object, flags: RunFlags = {}) => place.run(written(job), flags);

  it('leaves labels out below the lowest confidence with which the others are right so often', async () => {
    const service = await startScriptedService(place.script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const ended = await work.call(['run', written({})], env);
    await service.close();
    expect(ended.code, ended.stderr).toBe(0);
    const records = work.records('out.csv');
    expect(records.map(({ id }) => Number(id))).toEqual(ROWS.map((_, i) => i + 1));
    const out = ROWS.map(({ text, confidence }) =>
      text === ' whatever' ? ['', 'false'] : (confidence ?? 0) < 0.7 ? ['', 'true'] : [text.trim(), 'false'],
    );
    expect(records.map(({ answer, abstained }) => [answer, abstained])).toEqual(out);
    expect(records.map(({ text }) => text)).toEqual(ROWS.map(({ text }) => text.trim()));
    expect(work.json('out.summary.json')).toMatchObject({
      missed: null,
      answers: { positive: 23, negative: 16, '(abstained)': 12, '(none)': 2 },
      answers_abstained: 12,
      answers_invalid: 2,
      scores: {
        rows: 46,
        abstained: 8,
        answered: 36,
        answered_accuracy: 35 / 36,
        labels: { positive: { support: 22, recall: 20 / 22 }, negative: { support: 24, recall: 15 / 24 } },
        confusion: {
          positive: { positive: 20, negative: 1, '(none)': 1 },
          negative: { negative: 15, '(none)': 9 },
        },
        abstention: {
          asked: 0.95,
          threshold: 0.7,
          rows: 44,
          answered: 36,
          accuracy: { value: 35 / 36 },
          coverage: 39 / 53,
        },
      },
    });
    // As if the threshold had been known before; only what was found out is more.
    const known = { ...ANSWER, abstain: undefined, abstain_below: 0.7 };
    expect((await run({ answer: known, output: { path: 'known.csv' } })).code).toBe(0);
    const figures = (name: string) => {
      const { answers, answers_abstained, scores } = work.json(name);
      return { answers, answers_abstained, scores: { ...Object(scores), abstention: undefined } };
    };
    expect(figures('out.summary.json')).toEqual(figures('known.summary.json'));
    expect(work.records('out.csv').map(comparable)).toEqual(work.records('known.csv').map(comparable));
    expect(work.records('out.review.csv')).toEqual(work.records('known.review.csv'));
    expect(work.records('out.review.csv')).toHaveLength(14);
    expect(ended.stderr.replaceAll(/\s+/g, ' ')).toContain(
      'at 95 % accuracy 73.6 % of the rows are answered (threshold 0.7, on 44 gold rows, 95 % interval 85.8 % to 99.5 %)',
    );
    expect(existsSync(work.path('out.csv.part'))).toBe(false);
    expect(existsSync(work.path('out.csv.part.tmp'))).toBe(false);
    expect(existsSync(work.path('out.csv.run.json'))).toBe(false);
  });

  it('does the same in JSONL', async () => {
    expect((await run({ output: { path: 'out.jsonl' } })).code).toBe(0);
    const known = { ...ANSWER, abstain: undefined, abstain_below: 0.7 };
    expect((await run({ answer: known, output: { path: 'known.jsonl' } })).code).toBe(0);
    const lines = (name: string) => work.read(name).replaceAll(/"latency_ms":\d+/g, '"latency_ms":1');
    expect(lines('out.jsonl')).toBe(lines('known.jsonl'));
    expect(lines('out.jsonl')).toContain('"answer":null');
  });

  it('leaves out nothing where no threshold reaches it, and is no success then', async () => {
    const few = ROWS.slice(0, 29).map(({ gold }, i) => `${i + 1},x,${gold}\n`);
    work.write('few.csv', `id,note,right\n${few.join('')}`);
    const unknown = await run({ input: { path: 'few.csv' }, output: { path: 'few-out.csv' } });
    expect(unknown.code, unknown.said).toBe(4);
    expect(unknown.shown).toContain(
      'the threshold of answer.abstain is found on 30 rows with gold and a label at least, and there are 29, so no row abstains',
    );
    const wrong = ROWS.map((_, i) => `${i + 1},x,neutral\n`);
    work.write('wrong.csv', `id,note,right\n${wrong.join('')}`);
    const never = await run({ input: { path: 'wrong.csv' }, output: { path: 'never.csv' } });
    expect(never.code, never.said).toBe(4);
    expect(never.shown).toContain('so no row abstains');
    expect(work.records('never.csv').every(({ abstained }) => abstained === 'false')).toBe(true);
    expect(work.json('never.summary.json')).toMatchObject({
      answers_abstained: 0,
      scores: { abstention: { threshold: null } },
    });
  });

  it('fault 5: finishes with a record that has a cell too many and another text in the place of its gold', async () => {
    const lines = ROWS.map(({ gold }, i) => `${i + 1},x,${gold ?? ''}\n`);
    work.write('ragged.csv', `id,note,right\n${lines.join('')}54,x,y,positive\n`);
    const ended = await run({ input: { path: 'ragged.csv' } });
    expect(ended.said).not.toContain('gold_invalid');
    expect(work.records('out.csv').at(-1)).toMatchObject({ right: 'y', error_code: 'ragged_record' });
    expect(work.json('out.summary.json')).toMatchObject({
      rows: { completed: ROWS.length, failed: 1 },
      scores: { abstention: { threshold: 0.7 } },
    });
  });

  it('waits for all rows of the input', async () => {
    const first = await run({}, { limit: 45 });
    expect(first.code, first.said).toBe(0);
    expect(first.said).toContain('no row abstains yet');
    expect(work.records('out.csv').every(({ abstained }) => abstained === 'false')).toBe(true);
    expect(existsSync(work.path('out.review.csv'))).toBe(false);
    const all = await run({});
    expect(all.code, all.said).toBe(0);
    expect(place.machine.calls()).toBe(ROWS.length);
    expect(work.records('out.csv').filter(({ abstained }) => abstained === 'true')).toHaveLength(12);
  });

  it('needs a file that can be written anew', async () => {
    const ended = await run({}, { output: '-' });
    expect(ended.code, ended.said).toBe(2);
    expect(ended.said).toContain('standard output cannot be changed then');
    expect(place.machine.calls()).toBe(0);
  });

  it.each([
    [
      { answer: { ...ANSWER, abstain_below: 0.5 } },
      'answer.abstain cannot stand beside answer.abstain_below',
    ],
    [{ answer: { ...ANSWER, gold: undefined } }, 'answer.abstain needs answer.gold'],
    [{ answer: { ...ANSWER, confidence: undefined } }, 'answer.abstain needs answer.confidence'],
    [{ answer: { ...ANSWER, abstain: { accuracy: 1.5 } } }, 'answer.abstain.accuracy must be at most 1'],
    [
      { output: { path: 'o.csv', columns: ['id', 'text', 'error_code', 'abstained'] } },
      'output.columns leaves out status, answer, confidence, right',
    ],
    [
      {
        answer: { ...ANSWER, on_invalid: { ask_again: 1 } },
        output: {
          path: 'o.csv',
          columns: ['id', 'right', 'status', 'answer', 'text', 'error_code', 'confidence', 'abstained'],
        },
      },
      'output.columns leaves out answer_source',
    ],
  ])('refuses %j before anything is sent', async (job, message) => {
    const ended = await run(job);
    expect(ended.code, ended.said).toBe(2);
    expect(ended.said).toContain(message);
    expect(place.machine.calls()).toBe(0);
  });
});

/** A record without what differs from run to run. */
const comparable = ({ latency_ms: _, ...record }: Record<string, string>) => record;
