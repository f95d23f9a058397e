import { describe, expect, it } from 'vitest';
import { OPERATION_NAMES, type OperationName } from '../../src/service/operation.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { EXCEEDED, slotServer } from '../support/slot-server.js';

const ROWS = 80;
const place = scriptedPlace();

/** Prompts of 250 to 549 words, and one that is too long for all the slots together. */
const TOO_LONG = 50;
const prompt = (row: number): string => {
  const words = row === TOO_LONG ? 1_100 : 249 + ((row * 37) % 300);
  return [`${row}`, ...Array<string>(words).fill('word')].join(' ');
};

async function run(operation: OperationName, limits: object) {
  const { work } = place;
  const slots = slotServer({
    ...{ slots: 4, ms: 10, context: 1_000, tokensOf: (text) => text.split(' ').length },
  });
  place.script = slots.script;
  const lines = Array.from({ length: ROWS }, (_, i) => JSON.stringify({ prompt: prompt(i + 1) }));
  const path = work.job({
    service: { deployment: 'm', style: 'openai', operation },
    input: { path: work.write('in.jsonl', `${lines.join('\n')}\n`) },
    prompt: '{{ prompt }}',
    output: { path: 'out.jsonl' },
    limits,
  });
  const ended = await work.call(['run', path], { PROMPTMILL_BASE_URL: place.service.url });
  return { ...ended, ...slots.counts };
}

/** An answer to so many prompts. */
function severalOf(prompts: number) {
  const body = completionBody();
  const choices = Array.from({ length: prompts }, (_, index) => ({ ...body.choices[0], index }));
  return { ...body, choices };
}

const ends = () => place.work.lines('out.jsonl').map(({ status, attempts }) => `${status} ${attempts}`);

describe('fault 113: a server whose slots share one context', () => {
  it.each(OPERATION_NAMES)(
    'gets fewer calls of %s at once; only the row fails that fails alone, and no other uses an attempt up',
    async (operation) => {
      const { code, stderr, calls, exceeded } = await run(operation, { concurrency: 20, attempts: 2 });
      expect(code, stderr).toBe(1);
      expect(ends()).toEqual(
        Array.from({ length: ROWS }, (_, i) => (i + 1 === TOO_LONG ? 'failed 2' : 'completed 1')),
      );
      const { error } = place.work.lines('out.jsonl')[TOO_LONG - 1];
      expect(error).toEqual({
        code: 'context_length_exceeded',
        message: 'Context size has been exceeded. (HTTP 500)',
      });
      const said = stderr.match(/the server has no room for the calls at once[^"]*/g) ?? [];
      expect(said).toEqual([
        expect.stringMatching(
          /Context size has been exceeded.*at most \d+ at once for now.*llama\.cpp: --ctx-size/,
        ),
      ]);
      expect(stderr).not.toContain('the requests of the rows are the cause');
      // A few waves of at most four, and no more.
      expect(exceeded).toBeLessThanOrEqual(40);
      expect(calls).toBe(ROWS + exceeded - 1);
      expect(place.work.json('out.summary.json')).toMatchObject({
        rows: { completed: ROWS - 1, failed: 1 },
        calls: { sent: place.service.calls() },
      });
    },
  );

  it('the same where prompts share a request: they are sent alone', async () => {
    const server = slotServer({ slots: 4, ms: 1, context: 1_000 });
    const { work } = place;
    place.script = (request) => {
      const { prompt } = request.body;
      if (Array.isArray(prompt) && prompt.length > 2) return EXCEEDED;
      return Array.isArray(prompt) ? { json: severalOf(prompt.length) } : server.script(request);
    };
    const path = work.job({
      service: { deployment: 'm', style: 'openai' },
      input: { path: work.rows(40) },
      prompt: 'row {{ id }}',
      output: { path: 'out.jsonl' },
      limits: { concurrency: 2, prompts_per_request: 10, attempts: 1 },
    });
    const { code, stderr } = await work.call(['run', path], { PROMPTMILL_BASE_URL: place.service.url });
    expect(code, stderr).toBe(0);
    expect(ends()).toEqual(Array(40).fill('completed 1'));
  });
});
