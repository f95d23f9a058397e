import { existsSync, readdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { type Ended, Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { unknownAfter } from '../support/unknown.js';

const TIMEOUT = 120_000;
const CONCURRENCY = 4;

describe('a run over the first rows (--limit) on embedded', () => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: () => void = () => {};
  let hang: (prompt: string) => boolean = () => false;

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(({ prompt }) => {
      onCall();
      if (hang(prompt)) return 'hang';
      return { json: completionBody({ text: ` re ${prompt}` }) };
    });
  });
  afterEach(async () => {
    onCall = () => {};
    hang = () => false;
    await service.close();
    work.remove();
  });

  const env = () => ({ PROMPTMILL_BASE_URL: service.url });
  const run = (...flags: readonly string[]): Promise<Ended> =>
    work.call(['run', 'job.yaml', ...flags], env());
  const job = (change: object = {}): string =>
    work.job({
      input: { path: 'rows.csv' },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: 5 },
      ...change,
    });
  const prompts = (): string[] => service.requests.map(({ prompt }) => String(prompt));

  it(
    'fault 40: is a beginning: larger limits, and then none, call the rows behind it only, also after a kill',
    async () => {
      work.rows(30);
      job({ limits: { concurrency: CONCURRENCY, chunk_size: 5, budget: { tokens: 100_000 } } });
      const first = await run('--limit', '7');
      expect(first.code, first.stderr).toBe(0);
      expect(first.stderr).toContain('23 rows are left. Go on with:\n  promptmill run job.yaml\n');
      const beginning = work.read('out.csv');
      expect(work.records('out.csv').length).toBe(7);

      for (const limit of ['7', '3']) {
        const again = await run('--limit', limit);
        expect(again.code, again.stderr).toBe(2);
        expect(again.stderr).toContain('out.csv has finished already with its first 7 rows');
        expect(again.stderr).toContain('larger --limit, or without one');
      }

      const restarted = await run('--restart');
      expect(restarted.code, restarted.stderr).toBe(2);
      expect(restarted.stderr).toContain(
        'out.csv has finished with its first 7 rows, and --restart discards only',
      );

      // Killed on the way: who reads the output still has the first rows, whole.
      const running = work.start(['run', 'job.yaml', '--limit', '20'], env());
      onCall = () => {
        if (service.requests.length >= 14) running.process.kill('SIGKILL');
      };
      expect((await running.ended).code).toBe(null);
      onCall = () => {};
      expect(work.read('out.csv')).toBe(beginning);
      const less = await run('--limit', '6');
      expect(less.code, less.stderr).toBe(2);
      expect((await run('--restart')).stderr).toContain('Start over with --restart --overwrite');

      const rest = await run();
      expect(rest.code, rest.stderr).toBe(0);
      expect(work.read('out.csv').startsWith(beginning)).toBe(true);
      expect(work.records('out.csv').map(({ id, text }) => `${id} ${text}`)).toEqual(
        Array.from({ length: 30 }, (_, i) => `${i + 1} re row ${i + 1}`),
      );
      // Those of the first rows once each; at most those that were unknown at the kill again.
      expect(prompts().filter((prompt) => /^row [1-7]$/.test(prompt)).length).toBe(7);
      expect(prompts().length).toBeLessThanOrEqual(30 + unknownAfter(CONCURRENCY));
      const summary = work.json('out.summary.json');
      expect(summary).toMatchObject({
        rows: { total: 30, completed: 30 },
        input: { rows: 30 },
        stopped: null,
      });
      expect(summary['usage']).toMatchObject({ total_tokens: 30 * usageOfOne() });
      expect(
        readdirSync(work.folder)
          .filter((name) => name.startsWith('out.'))
          .sort(),
      ).toEqual(['out.csv', 'out.summary.json']);
      expect((await run()).stderr).toContain('out.csv exists: this job has finished already');
    },
    TIMEOUT,
  );

  it.for(['retry', 'hold'] as const)(
    'fault 40: goes back behind no answer that is known, nor with unknown_outcome: %s behind a call that may be paid for',
    { timeout: TIMEOUT },
    async (unknown_outcome) => {
      work.rows(30);
      job({ limits: { concurrency: CONCURRENCY, chunk_size: 5, unknown_outcome } });
      let killed = false;
      hang = (prompt) =>
        !killed && (prompt === 'row 1' || (unknown_outcome === 'hold' && prompt === 'row 12'));
      const running = work.start(['run', 'job.yaml'], env());
      onCall = () => {
        if (service.requests.length >= 20) running.process.kill('SIGKILL');
      };
      expect((await running.ended).code).toBe(null);
      killed = true;
      onCall = () => {};
      const before = service.requests.length;

      for (const again of [await run('--limit', '7'), await run('--limit', '7')]) {
        expect(again.code, again.stderr).toBe(2);
        expect(again.stderr).toContain('the unfinished run has called rows behind row 7');
        expect(again.stderr).toContain('larger --limit, or without one');
      }
      expect(service.requests.length).toBe(before);

      const rest = await run();
      expect(rest.code, rest.stderr).toBe(unknown_outcome === 'hold' ? 1 : 0);
      const repeats = unknown_outcome === 'hold' ? 0 : unknownAfter(CONCURRENCY);
      expect(service.requests.length).toBeLessThanOrEqual(30 + repeats);
      const { calls } = work.json('out.summary.json') as { calls: { repeated: number } };
      expect(service.requests.length - 30).toBeLessThanOrEqual(calls.repeated);
    },
  );

  /** Tokens of one answer of the service. */
  const usageOfOne = (): number => {
    const [record] = work.records('out.csv');
    return Number(record?.['total_tokens']);
  };

  it(
    'fault 14: goes on in JSONL, with rows that ask the same, and where the run is in the name of the output',
    async () => {
      work.write(
        'rows.csv',
        `id,note\n${Array.from({ length: 12 }, (_, i) => `${i + 1},${i % 3}`).join('\n')}\n`,
      );
      job({
        prompt: 'note {{ note }}',
        input: { path: 'rows.csv', dedupe: true, only_new: true },
        parameters: { temperature: 0 },
        output: { path: 'out-{{run}}.jsonl' },
      });
      expect((await run('--limit', '2')).code).toBe(0);
      const ended = await run();
      expect(ended.code, ended.stderr).toBe(0);
      const outputs = readdirSync(work.folder).filter((name) => name.endsWith('.jsonl'));
      expect(outputs.length).toBe(1);
      const records = work
        .read(outputs[0] ?? '')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(records.map(({ row, text }) => `${row}${text}`)).toEqual(
        Array.from({ length: 12 }, (_, i) => `${i + 1} re note ${i % 3}`),
      );
      expect(prompts().sort()).toEqual(['note 0', 'note 1', 'note 2']);

      // Another input: the run over the first rows of the one before stays as it is, and a new one begins.
      expect((await run('--limit', '2')).code).toBe(0);
      work.rows(4);
      const anew = await run();
      expect(anew.code, anew.stderr).toBe(0);
      expect(readdirSync(work.folder).filter((name) => name.endsWith('.jsonl')).length).toBe(3);
    },
    TIMEOUT,
  );

  it(
    'faults 14 and 15: does not go on over an output, an input or a job that was changed, unless it may begin anew',
    async () => {
      work.rows(6);
      job();
      expect((await run('--limit', '2')).code).toBe(0);
      const before = { output: work.read('out.csv'), input: work.read('rows.csv') };
      const refused = async (...says: readonly string[]): Promise<void> => {
        const { code, stderr } = await run();
        expect(code, stderr).toBe(2);
        for (const text of [...says, '--overwrite']) expect(stderr).toContain(text);
        expect(service.requests.length).toBe(2);
        expect(existsSync(work.path('out.csv.part'))).toBe(false);
      };
      work.write('out.csv', before.output.replace('re row 1', 're row l'));
      await refused('out.csv is not as Promptmill wrote it: row 1 was changed');
      work.write('out.csv', before.output);
      work.write('rows.csv', before.input.replace('note 6', 'note 5'));
      await refused('input (');
      work.write('rows.csv', before.input);
      job({ prompt: 'another {{ id }}' });
      await refused('prompt (');

      const anew = await run('--overwrite');
      expect(anew.code, anew.stderr).toBe(0);
      expect(service.requests.length).toBe(8);
      expect(work.records('out.csv').length).toBe(6);
      expect(existsSync(work.path('out.csv.run.json'))).toBe(false);
    },
    TIMEOUT,
  );
});
