import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Parameters } from '../../../src/core/model.js';
import { RequestCount } from '../../../src/run/check/inspection.js';
import { answerBytes, LARGEST_ANSWER } from '../../../src/service/answer-size.js';
import { packs } from '../../../src/worker/visit.js';

/** Tokens of which the answers to two prompts have room in one answer, and those to three have not. */
const LARGE = Math.floor(LARGEST_ANSWER / 12 / 2.5);

/** Rows as they come: `null` is one that is not sent. */
const row = fc.record({
  bytes: fc.integer({ min: 1, max: 60 }),
  parameters: fc.option(fc.constantFrom<Parameters | null>(null, { max_tokens: 1 }, { max_tokens: LARGE }), {
    nil: undefined,
  }),
});

it('counts as many requests as the workers make of the chunks', () => {
  fc.assert(
    fc.property(
      fc.array(row, { maxLength: 60 }),
      fc.record({
        chunkSize: fc.integer({ min: 1, max: 12 }),
        chunkBytes: fc.integer({ min: 50, max: 400 }),
        promptsPerRequest: fc.integer({ min: 1, max: 6 }),
      }),
      (rows, grouping) => {
        const count = new RequestCount(grouping);
        let expected = 0;
        let chunk: typeof rows = [];
        const close = () => {
          const sent = chunk.flatMap(({ parameters }, i) =>
            parameters === undefined ? [] : [{ row: i, prompt: '', parameters }],
          );
          expected += packs(sent, grouping.promptsPerRequest, {}).length;
          chunk = [];
        };
        for (const each of rows) {
          if (each.parameters === undefined) count.pass(each.bytes);
          else
            count.send(each.bytes, JSON.stringify(each.parameters), answerBytes(each.parameters ?? {}, ''));
          chunk.push(each);
          const bytes = chunk.reduce((sum, { bytes }) => sum + bytes, 0);
          if (chunk.length >= grouping.chunkSize || bytes >= grouping.chunkBytes) close();
        }
        close();
        expect(count.requests).toBe(expected);
      },
    ),
    { seed: 5 },
  );
});

it('takes a row for a request where rows share none', () => {
  const count = new RequestCount({ chunkSize: 10, chunkBytes: 1_000, promptsPerRequest: 1 });
  for (let i = 0; i < 25; i++) count.send(1, 'null', 1);
  count.pass(1);
  expect(count.requests).toBe(25);
});
