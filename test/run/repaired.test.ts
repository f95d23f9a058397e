import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody } from '../support/scripted-service.js';

/** What the model says of each review, and why it ended. */
const SAYS: { readonly [review: string]: readonly [text: string, reason: string] } = {
  sound: ['{"city": "Rome"}', 'stop'],
  quotes: ["{'city': 'Rome',}", 'stop'],
  length: ["{'city': 'Rome'}", 'length'],
  open: ["{'city': 'Rome'", 'stop'],
  words: ['I do not know.', 'stop'],
};

describe('a job with on_invalid.repair', () => {
  let place: MemoryPlace;
  let work: Workplace;
  beforeEach(() => {
    place = new MemoryPlace();
    place.script = ({ prompt }) => {
      const [text, finish_reason] = SAYS[prompt] ?? ['', 'stop'];
      return { json: completionBody({ text, finish_reason }) };
    };
    work = place.work;
    work.write('rows.csv', `prompt\n${Object.keys(SAYS).join('\n')}\nsound\nquotes\n`);
  });
  afterEach(() => work.remove());

  const run = (change: object = {}) =>
    place.run(
      work.job({
        input: { path: 'rows.csv', dedupe: true },
        prompt: '{{ prompt }}',
        parameters: { temperature: 0 },
        answer: {
          json: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
          on_invalid: { repair: true },
          require: { valid: 0.4 },
        },
        output: { path: 'out.csv' },
        ...change,
      }),
    );

  it('has what was mended in its answers, says so in each row and counts it; nothing that was cut is mended', async () => {
    const { code, said, shown } = await run();
    expect(code, said).toBe(0);
    const records = work.records('out.csv');
    expect(records.map(({ city, answer_source, error_code }) => [city, answer_source, error_code])).toEqual([
      ['Rome', 'read', ''],
      ['Rome', 'repaired', ''],
      ['', 'read', 'answer_not_json'],
      ['', 'read', 'answer_not_json'],
      ['', 'read', 'answer_not_json'],
      ['Rome', 'read', ''],
      // A copy keeps the source of its answer.
      ['Rome', 'repaired', ''],
    ]);
    expect(Object.keys(records[0] ?? {}).slice(-2)).toEqual(['copied_from', 'answer_source']);
    expect(work.json('out.summary.json')).toMatchObject({
      answers_invalid: 3,
      answer_sources: { read: 2, repaired: 2, asked_again: 0, voted: 0, escalated: 0 },
    });
    expect(shown).toContain('2 read, 2 repaired');
  });

  it('has the source in JSONL as well', async () => {
    const { code, said } = await run({ output: { path: 'out.jsonl' } });
    expect(code, said).toBe(0);
    const lines = work.read('out.jsonl').trimEnd().split('\n');
    const records = lines.map((line) => JSON.parse(line));
    expect(records.map(({ answer, answer_source }) => [answer, answer_source]).slice(0, 3)).toEqual([
      [{ city: 'Rome' }, 'read'],
      [{ city: 'Rome' }, 'repaired'],
      [null, 'read'],
    ]);
  });
});
