import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

describe('log probabilities', () => {
  let work: Workplace;
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(() => work.remove());

  it('are in the record of each row, also of packed, copied and carried rows; CSV has them by selection', async () => {
    work.write(
      'in.csv',
      `id,review\n${[1, 2, 3, 4, 5, 6].map((id) => `${id},It is ${id % 3} good\n`).join('')}`,
    );
    const job = (name: string, more: object): string =>
      work.job(
        {
          name: 'one',
          input: { path: 'in.csv', dedupe: true, only_new: true },
          prompt: 'Classify as positive or negative.\nReview: {{ review }}\nSentiment:',
          parameters: { temperature: 0, logprobs: 2, max_tokens: 5 },
          limits: { prompts_per_request: 2 },
          ...more,
        },
        name,
      );
    const first = await work.call(['run', job('a.yaml', { output: { path: 'a.jsonl' } }), '--emulate']);
    expect(first.code, first.stderr).toBe(0);
    const second = await work.call(['run', job('b.yaml', { output: { path: 'b.jsonl' } }), '--emulate']);
    expect(second.code, second.stderr).toBe(0);

    const recordsOf = (name: string) => work.lines(name);
    for (const { text, logprobs, input } of [
      ...recordsOf('a.emulated.jsonl'),
      ...recordsOf('b.emulated.jsonl'),
    ]) {
      expect(logprobs.tokens.join(''), input.review).toBe(text);
      expect(logprobs.token_logprobs).toHaveLength(logprobs.tokens.length);
      expect(Object.keys(logprobs.top_logprobs[0]).length).toBeGreaterThanOrEqual(2);
    }
    expect(recordsOf('a.emulated.jsonl').map(({ copied_from }) => copied_from)).toEqual([
      null,
      null,
      null,
      1,
      2,
      3,
    ]);
    expect(recordsOf('b.emulated.jsonl').every(({ carried_from }) => carried_from !== null)).toBe(true);

    const columns = ['id', 'logprobs'];
    const csv = await work.call(['run', job('c.yaml', { output: { path: 'c.csv', columns } }), '--emulate']);
    expect(csv.code, csv.stderr).toBe(0);
    expect(work.records('c.emulated.csv').map(({ logprobs }) => JSON.parse(logprobs ?? ''))).toEqual(
      recordsOf('a.emulated.jsonl').map(({ logprobs }) => logprobs),
    );
  });
});
