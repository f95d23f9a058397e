import { describe, expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody, type ScriptedReply } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

const REFUSED: ScriptedReply = { status: 400, json: { error: { code: 'invalid', message: 'bad prompt' } } };
const says = (text: string): ScriptedReply => ({ json: completionBody({ text }) });

/** What is asked of answers that are one of two labels. */
const asking = (valid: number) => ({ answer: { labels: ['yes', 'no'], require: { valid } } });

/** A message as it was before it was broken into lines. */
const flat = (text: string): string => text.replaceAll('\n', ' ');

/** Runs over 40 rows in a place of their own. */
function runs() {
  const place = scriptedPlace();
  const store = oneStore();
  const start = (job: object, ...flags: string[]) => {
    const { limits = {}, ...rest } = job as { limits?: object };
    const file = place.work.job({
      input: { path: place.work.rows(40) },
      output: { path: 'out.csv' },
      answer: { labels: ['yes', 'no'] },
      limits: { concurrency: 4, ...limits },
      ...rest,
    });
    return [['run', file, ...flags], { PROMPTMILL_BASE_URL: place.service.url, ...store() }] as const;
  };
  return {
    place,
    call: (job: object, ...flags: string[]) => place.work.call(...start(job, ...flags)),
    /** Calls back when the run says that it stops. */
    callUntil: (job: object, onStopping: () => void) =>
      place.work.call(...start(job), (text) => text.includes('stopping') && onStopping()),
    /** What the service answers to a row, from now on. */
    replies: (reply: (row: number) => ScriptedReply | Promise<ScriptedReply>): void => {
      place.script = ({ prompt }) => reply(Number(prompt.replaceAll(/\D/g, '')));
    },
    summary: () => place.work.json('out.summary.json'),
  };
}

describe('a run whose answers are invalid', () => {
  const { place, call, callUntil, replies, summary } = runs();

  it('ends with 4 when it misses what is asked, with its output in its place', async () => {
    replies((row) => (row === 1 ? REFUSED : says(row > 31 ? 'perhaps' : 'yes')));
    const { code, stderr } = await call(asking(0.98));
    expect(code, stderr).toBe(4);
    expect(stderr).toContain(
      '40 rows = 39 completed + 0 filtered + 1 failed + 0 skipped; answers.invalid 9\n',
    );
    const missed =
      'below_require: 76.9 % of 39 answers are valid, where answer.require.valid asks for 98 % (9 answer_not_a_label).';
    expect(flat(stderr)).toContain(`Finished, but ${missed}`);
    expect(stderr).toContain('"perhaps" is none of the labels');
    const answers = place.work.records('out.csv').map(({ status, answer }) => `${status} ${answer}`);
    expect(answers).toEqual(['failed ', ...Array(30).fill('completed yes'), ...Array(9).fill('completed ')]);
    expect(summary()).toMatchObject({
      stopped: null,
      missed: expect.stringContaining(missed),
      rows: { total: 40, completed: 39, failed: 1 },
      answers: { yes: 30 },
      answers_invalid: 9,
    });
  });

  it('stops before the money flows when its first rows miss what is asked, until less is asked', async () => {
    replies((row) => says(row % 2 === 0 ? 'perhaps' : 'yes'));
    const limits = { canary: 10 };
    for (const called of [10, 20]) {
      const { code, stderr } = await call({ ...asking(0.9), limits });
      expect(code, stderr).toBe(3);
      expect(flat(stderr)).toContain(
        `50.0 % of ${called} answers are valid, where answer.require.valid asks for 90 %`,
      );
      expect(place.service.requests).toHaveLength(called);
    }
    const { code, stderr } = await call({ ...asking(0.5), limits });
    expect(code, stderr).toBe(0);
    expect(place.service.requests).toHaveLength(40);
    expect(summary()).toMatchObject({ answers_invalid: 20, missed: null });
  });

  it('stops when as many rows are of no use as may fail, and goes on when more may', async () => {
    const { promise: isStopping, resolve: stop } = withResolvers();
    replies(async (row) => {
      // From here on nothing is answered until the run is about to stop.
      if (row > 20) await isStopping;
      return row % 4 === 0 ? REFUSED : says(row % 4 === 1 ? 'perhaps' : 'yes');
    });
    const { code, stderr } = await callUntil({ limits: { stop_after_failures: 10 } }, stop);
    expect(code, stderr).toBe(3);
    expect(flat(stderr)).toContain(
      'too_many_failures: 5 of 20 rows failed and 5 have an invalid answer (5 answer_not_a_label), ' +
        'where limits.stop_after_failures is 10.',
    );
    const finished = await call({ limits: { stop_after_failures: 21 } });
    expect(finished.code, finished.stderr).toBe(1);
    expect(place.service.requests).toHaveLength(40);
    expect(summary()).toMatchObject({ rows: { failed: 10 }, answers_invalid: 10, missed: null });
  });
});

describe('what is asked of the answers of a run', () => {
  const { place, call, replies, summary } = runs();

  it('is half of them valid where the job says nothing, and nothing with 0', async () => {
    replies((row) => says(row > 19 ? 'perhaps' : 'yes'));
    const { code, stderr } = await call({});
    expect(code, stderr).toBe(4);
    expect(summary()['missed']).toMatch(/^below_require: 47\.5 % of 40 .* asks for 50 % /);
    replies(() => says('perhaps'));
    const all = await call(asking(0), '--overwrite');
    expect(all.code, all.stderr).toBe(0);
    expect(summary()).toMatchObject({ answers_invalid: 40, missed: null });
  });

  it('counts JSON that is none, and JSON of another schema', async () => {
    const json = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    replies((row) => says(['{"n":1}', '```json\n{"n":2}\n```', '{"n":"one"}', '{"n":'][row % 4] ?? ''));
    const { code, stderr } = await call({ answer: { json, require: { valid: 0.51 } } });
    expect(code, stderr).toBe(4);
    expect(summary()).toMatchObject({
      answers: { valid: 20, invalid: 20 },
      answers_invalid: 20,
      errors: { answer_invalid: 10, answer_not_json: 10 },
      missed: expect.stringContaining('(10 answer_invalid, 10 answer_not_json)'),
    });
  });

  it('is asked of the first rows (--limit), and later of all of them', async () => {
    replies((row) => says(row > 15 && row <= 20 ? 'perhaps' : 'yes'));
    const first = await call(asking(0.8), '--limit', '20');
    expect(first.code, first.stderr).toBe(4);
    expect(place.work.records('out.csv')).toHaveLength(20);
    expect(summary()['missed']).toContain('75.0 % of 20 answers');
    const all = await call(asking(0.8));
    expect(all.code, all.stderr).toBe(0);
    expect(place.service.requests).toHaveLength(40);
    expect(summary()).toMatchObject({ answers_invalid: 5, missed: null });
  });

  it('is told in one line by --quiet, with one of the answers, and to a command by its exit code', async () => {
    replies(() => says('perhaps'));
    const on_finish = { command: ['sh', '-c', 'echo "$PROMPTMILL_STATUS $PROMPTMILL_EXIT_CODE" > told'] };
    const { code, stderr, stdout } = await call({ on_finish }, '--quiet', '--json');
    expect(code, stderr).toBe(4);
    expect(stderr).toMatch(
      /^promptmill: below_require: 0\.0 % .* One of the errors \(answer_not_a_label\): the text "perhaps" is none of the labels yes, no\n$/,
    );
    expect(JSON.parse(stdout)).toEqual(summary());
    expect(place.work.read('told')).toBe('finished 4\n');
  });
});
