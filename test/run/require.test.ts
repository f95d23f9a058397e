import { afterAll, describe, expect, it } from 'vitest';
import { Halt } from '../../src/core/halt.js';
import { MemoryMachine, memoryRun } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, type ScriptedReply, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const REFUSED: ScriptedReply = { status: 400, json: { error: { code: 'invalid', message: 'bad prompt' } } };
const says = (text: string): ScriptedReply => ({ answer: { text } });

/** What the service answers to a row. */
const answering =
  (reply: (row: number) => ScriptedReply | Promise<ScriptedReply>): Script =>
  ({ prompt }) =>
    reply(Number(prompt.replace('row ', '')));

const JOB = { answer: { labels: ['yes', 'no'] }, limits: { concurrency: 4 } };
/** What is asked of answers that are one of two labels. */
const asking = (valid: number) => ({ ...JOB, answer: { ...JOB.answer, require: { valid } } });
const ROWS = Array.from({ length: 40 }, (_, i) => ({ id: i + 1 }));

const work = new Workplace();
afterAll(() => work.remove());
const store = oneStore();

/** Runs a job over 40 rows as a user does. */
async function call(job: object, script: Script, ...flags: string[]) {
  const service = await startScriptedService(script);
  const file = work.job({ ...job, input: { path: work.rows(40) }, output: { path: 'out.csv' } });
  const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
  const ended = await work.call(['run', file, '--overwrite', ...flags], env);
  await service.close();
  return { ...ended, summary: work.json('out.summary.json') };
}

describe('a run whose answers are invalid', () => {
  it('ends with 4 when it misses what is asked, with its output in its place', async () => {
    const script = answering((row) => (row === 1 ? REFUSED : says(row > 31 ? 'perhaps' : 'yes')));
    const { code, stderr, summary } = await call(asking(0.98), script);
    expect(code, stderr).toBe(4);
    expect(stderr).toContain(
      '40 rows = 39 completed + 0 filtered + 1 failed + 0 skipped; answers.invalid 9\n',
    );
    const missed =
      'below_require: 76.9 % of 39 answers are valid, where answer.require.valid asks for 98 % (9 answer_not_a_label).';
    // A message as it was before it was broken into lines.
    expect(stderr.replaceAll('\n', ' ')).toContain(`Finished, but ${missed}`);
    expect(stderr).toContain('"perhaps" is none of the labels');
    const answers = work.records('out.csv').map(({ status, answer }) => `${status} ${answer}`);
    expect(answers).toEqual(['failed ', ...Array(30).fill('completed yes'), ...Array(9).fill('completed ')]);
    expect(summary).toMatchObject({
      stopped: null,
      missed: expect.stringContaining(missed),
      rows: { total: 40, completed: 39, failed: 1 },
      answers: { yes: 30 },
      answers_invalid: 9,
    });
  });

  it('stops before the money flows when its first rows miss what is asked, until less is asked', async () => {
    const machine = new MemoryMachine(answering((row) => says(row % 2 === 0 ? 'perhaps' : 'yes')));
    const output = { path: work.path('canary.jsonl') };
    const limits = { ...JOB.limits, canary: 10 };
    for (const called of [10, 20]) {
      const { code, summary } = await machine.run({ ...asking(0.9), output, limits }, ROWS);
      expect(code).toBe(3);
      expect(summary.stopped).toContain(
        `50.0 % of ${called} answers are valid, where answer.require.valid asks for 90 %`,
      );
      expect(machine.calls()).toBe(called);
    }
    const { code, summary } = await machine.run({ ...asking(0.5), output, limits }, ROWS);
    expect(code).toBe(0);
    expect(machine.calls()).toBe(40);
    expect(summary).toMatchObject({ answers_invalid: 20, missed: null });
  });

  it('stops when as many rows are of no use as may fail, and goes on when more may', async () => {
    const halt = new Halt();
    const machine = new MemoryMachine(
      answering(async (row) => {
        // From here on nothing is answered until the run is about to stop.
        if (row > 20) await halt.requested;
        return row % 4 === 0 ? REFUSED : says(row % 4 === 1 ? 'perhaps' : 'yes');
      }),
    );
    const failing = (stop_after_failures: number) => ({
      ...JOB,
      output: { path: work.path('failing.jsonl') },
      limits: { ...JOB.limits, stop_after_failures },
    });
    const { code, summary } = await machine.run(failing(10), ROWS, { halt });
    expect(code).toBe(3);
    expect(summary.stopped).toContain(
      'too_many_failures: 5 of 20 rows failed and 5 have an invalid answer (5 answer_not_a_label), ' +
        'where limits.stop_after_failures is 10.',
    );
    const finished = await machine.run(failing(21), ROWS);
    expect(finished.code).toBe(1);
    expect(machine.calls()).toBe(40);
    expect(finished.summary).toMatchObject({ rows: { failed: 10 }, answers_invalid: 10, missed: null });
  });
});

describe('what is asked of the answers of a run', () => {
  it('is half of them valid where the job says nothing, and nothing with 0', async () => {
    const half = await memoryRun(
      JOB,
      ROWS,
      answering((row) => says(row > 19 ? 'perhaps' : 'yes')),
    );
    expect(half.code).toBe(4);
    expect(half.summary.missed).toMatch(/^below_require: 47\.5 % of 40 .* asks for 50 % /);
    const all = await memoryRun(asking(0), ROWS, () => says('perhaps'));
    expect(all).toMatchObject({ code: 0, summary: { answers_invalid: 40, missed: null } });
  });

  it('counts JSON that is none, and JSON of another schema', async () => {
    const json = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    const said = ['{"n":1}', '```json\n{"n":2}\n```', '{"n":"one"}', '{"n":'];
    const { code, summary } = await memoryRun(
      { answer: { json, require: { valid: 0.51 } } },
      ROWS,
      answering((row) => says(said[row % 4] ?? '')),
    );
    expect(code).toBe(4);
    expect(summary).toMatchObject({
      answers: { valid: 20, invalid: 20 },
      answers_invalid: 20,
      errors: { answer_invalid: 10, answer_not_json: 10 },
      missed: expect.stringContaining('(10 answer_invalid, 10 answer_not_json)'),
    });
  });

  it('is asked of the first rows (--limit), and later of all of them', async () => {
    const machine = new MemoryMachine(answering((row) => says(row > 15 && row <= 20 ? 'perhaps' : 'yes')));
    const job = { ...asking(0.8), output: { path: work.path('first.jsonl') } };
    const first = await machine.run(job, ROWS, { flags: { limit: 20 } });
    expect(first.code).toBe(4);
    expect(work.lines('first.jsonl')).toHaveLength(20);
    expect(first.summary.missed).toContain('75.0 % of 20 answers');
    const all = await machine.run(job, ROWS);
    expect(all.code).toBe(0);
    expect(machine.calls()).toBe(40);
    expect(all.summary).toMatchObject({ answers_invalid: 5, missed: null });
  });

  it('is told in one line by --quiet, with one of the answers, and to a command by its exit code', async () => {
    const on_finish = { command: ['sh', '-c', 'echo "$PROMPTMILL_STATUS $PROMPTMILL_EXIT_CODE" > told'] };
    const script: Script = () => says('perhaps');
    const { code, stderr, stdout, summary } = await call({ ...JOB, on_finish }, script, '--quiet', '--json');
    expect(code, stderr).toBe(4);
    expect(stderr).toMatch(
      /^promptmill: below_require: 0\.0 % .* One of the errors \(answer_not_a_label\): the text "perhaps" is none of the labels yes, no\n$/,
    );
    expect(JSON.parse(stdout)).toEqual(summary);
    expect(work.read('told')).toBe('finished 4\n');
  });
});
