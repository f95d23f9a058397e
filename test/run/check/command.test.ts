import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Workplace } from '../../support/promptmill.js';

const ROOT = join(import.meta.dirname, '../../..');
const work = new Workplace();
afterAll(() => work.remove());

/** No key, no address: a check needs neither. */
const NOTHING = { PROMPTMILL_API_KEY: '' };

const check = (args: readonly string[]) => work.call(['check', ...args], NOTHING);

const variant = (name: string, change: object): string =>
  work.job({ input: { path: 'rows.csv' }, output: { path: 'out.csv' }, ...change }, `${name}.yaml`);

describe('promptmill check', () => {
  work.rows(40);

  it('says on standard error what a run would take, and leaves nothing behind', async () => {
    const { code, stdout, stderr } = await check([variant('plain', { parameters: { max_tokens: 5 } })]);
    expect(code, stderr).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toContain('40 rows = 40 to send + 0 failing + 0 skipped');
    expect(stderr).toContain('+ 0 to 200 completion');
    expect(stderr).toContain('add prices: { prompt: …, completion: … } (per 1,000 tokens)');
    expect(stderr).toContain('│ row 1\n');
    expect(readdirSync(work.folder).filter((name) => !/^(rows\.csv|\w+\.yaml)$/.test(name))).toEqual([]);
  });

  it('prints the report as JSON on standard output, and with --quiet nothing else', async () => {
    const { code, stdout, stderr } = await check([variant('json', {}), '--json', '--quiet']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({
      job: 'json',
      deployment: 'lm-35-turbo-instruct',
      input: { path: 'rows.csv', rows: 40 },
      rows: { total: 40, to_send: 40, skipped: 0, failing: 0 },
      tokens: { tokenizer: 'cl100k_base', tokenizer_assumed: false, context_window: 4097 },
      requests: 40,
      cost: null,
      time: null,
      first_prompt: { row: 1, line: 2, text: 'row 1', clipped: false },
    });
  });

  it('looks at the first rows only when told so', async () => {
    const { stdout } = await check([variant('first', {}), '--limit', '3', '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ input: { rows: 3 }, rows: { total: 3, to_send: 3 } });
  });

  it('reads standard input, and leaves no copy of it', async () => {
    const args = [variant('stdin', {}), '--input', '-', '--format', 'jsonl', '--json'];
    const { code, stdout, stderr } = await work.run(['check', ...args], NOTHING, '{"id": 1}\n{"id": 2}\n');
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ input: { path: '-' }, rows: { to_send: 2 } });
    expect(readdirSync(work.path('.promptmill'))).toEqual([]);
  });

  it('finds bad rows with their lines, and exits 1 because they would end failed', async () => {
    const long = 'word '.repeat(5_000);
    work.write('bad.csv', `id,note\n1,a\n2,b,c\n3,"${long}"\n,d\n5,e\n`);
    const file = variant('bad', {
      input: { path: 'bad.csv', require: ['id'] },
      prompt: '{{ id }} {{ note }}',
    });
    const { code, stderr } = await check([file]);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('5 rows = 2 to send + 2 failing + 1 skipped');
    expect(stderr).toMatch(/1 ragged_record\n +line 3: .*3 cells/);
    expect(stderr).toMatch(/1 context_length_exceeded\n +line 4: /);
    expect(stderr).toContain('1 without id: line 5');
  });

  it('counts the right answers, and the values that have no place among them', async () => {
    work.write('gold.csv', 'note,rating\nfine,5\nbad,1\nso so,3\nwell,4.0\nno,\n');
    const file = variant('gold', {
      input: { path: 'gold.csv' },
      prompt: '{{ note }}',
      answer: { labels: ['good', 'poor'], gold: { column: 'rating', map: { good: [4, 5], poor: 1 } } },
    });
    const { stderr } = await check([file]);
    expect(stderr).toMatch(
      /right answers +3 of 5 rows have one in "rating"\n +good 2, poor 1\n +no place in answer.gold.map:\n +"3" in 1 row\n/,
    );
    expect(JSON.parse((await check([file, '--json'])).stdout).gold).toEqual({
      ...{ column: 'rating', rows: 3, answers: { good: 2, poor: 1 }, unmapped: { 3: 1 } },
    });
  });

  it('shows the columns that the output will have, where the job chooses them', async () => {
    const columns = variant('columns', {
      output: { columns: ['input', 'answer', 'tokens', '-total_tokens'] },
    });
    const shown = await check([columns]);
    expect(shown.stderr).toMatch(/columns +.*answer, prompt_tokens, completion_tokens\n/);
    const jsonl = variant('parts', { output: { path: 'out/x.jsonl', columns: ['-filters', '-error'] } });
    const { columns: parts } = JSON.parse((await check([jsonl, '--json'])).stdout);
    expect(parts).toEqual(expect.arrayContaining(['row', 'input', 'usage']));
    expect(parts).not.toContain('filters');
    const wrong = await check([variant('wrong', { output: { columns: ['-fliters'] } })]);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('did you mean "filters"?');
  });

  it('knows that a row which sets max_tokens to null has the default of the service', async () => {
    work.write('null.jsonl', '{"body": {"prompt": "a b c", "max_tokens": null}}\n');
    const job = { input: { path: 'null.jsonl' }, prompt: undefined, parameters: { max_tokens: 4_096 } };
    const { code, stdout, stderr } = await check([variant('null', job), '--json']);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).tokens).toMatchObject({ prompt_tokens: 3, completion_tokens: { most: 16 } });
  });

  it('refuses max_tokens that leave no room in any row, as a run does, before anything is written', async () => {
    const tooMany = variant('room', { parameters: { max_tokens: 5_000 }, output: { path: 'room/out.csv' } });
    for (const command of ['check', 'run']) {
      const { code, stderr } = await work.call([command, tooMany], {
        PROMPTMILL_BASE_URL: 'http://127.0.0.1:9',
      });
      expect({ command, code }).toEqual({ command, code: 2 });
      expect(stderr).toContain(
        'parameters.max_tokens: 5000 leaves no room for a prompt: lm-35-turbo-instruct takes 4097 tokens, prompt and answer together',
      );
    }
    expect(existsSync(work.path('room')) ? readdirSync(work.path('room')) : []).toEqual([]);
    // Where rows have values of their own, each is looked at by itself.
    work.write('own.csv', 'id,max_tokens\n1,5\n2,\n');
    const own = {
      input: { path: 'own.csv' },
      parameters: { max_tokens: 5_000 },
      row_parameters: ['max_tokens'],
    };
    const { code, stderr } = await check([variant('own', own)]);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('2 rows = 1 to send + 1 failing');
  });

  it('finds repeated prompts, and what they would cost', async () => {
    work.write('twice.csv', 'id\n1\n2\n1\n1\n');
    const file = variant('twice', { input: { path: 'twice.csv' }, prices: { prompt: 1, completion: 1 } });
    const { stdout, stderr } = await check([file, '--json']);
    const { duplicates, tokens } = JSON.parse(stdout);
    expect(duplicates).toMatchObject({
      rows: 2,
      at_least: false,
      prompt_tokens: tokens.prompt_tokens / 2,
      cost: { least: tokens.prompt_tokens / 2_000 },
      examples: [
        { line: 4, same_as_line: 2 },
        { line: 5, same_as_line: 2 },
      ],
    });
    expect(stderr).toContain('2 rows ask what an earlier one asks');
  });

  it('says which tokenizer it took where the model is not known', async () => {
    const { code, stderr } = await check([variant('own', { service: { deployment: 'my-own' } })]);
    expect(code, stderr).toBe(0);
    expect(stderr.replace(/\s+/g, ' ')).toContain('cl100k_base is assumed');
    expect(stderr).toContain('context window not known');
  });

  it('exits 3 when the run would stop early for certain: quota against deadline, prompts against budget', async () => {
    const late = await check([variant('late', { limits: { requests_per_minute: 10, deadline: '2m' } })]);
    expect(late.code, late.stderr).toBe(3);
    expect(late.stderr).toContain('2 min 0 s does not hold');
    const poor = await check([variant('poor', { limits: { budget: { tokens: 10 } } })]);
    expect(poor.code, poor.stderr).toBe(3);
    expect(poor.stderr).toContain('10 tokens is not enough');
  });

  it('says how many calls answers that do not fit may take; a budget that holds without them may not hold', async () => {
    const answer = { json: { type: 'object' } };
    const limits = { budget: { tokens: 1_000_000 } };
    const report = async (name: string, on_invalid: object) => {
      const job = variant(name, { answer: { ...answer, on_invalid }, limits });
      return JSON.parse((await check([job, '--json'])).stdout);
    };
    const again = await report('again', { ask_again: 2, deployment: 'other' });
    expect(again.further_calls).toEqual({ most: 120, ask_again: 2, deployment: 'other' });
    expect([again.requests, again.budget[0].verdict]).toEqual([40, 'depends']);
    const mended = await report('mended', { repair: true });
    expect([mended.further_calls, mended.budget[0].verdict]).toEqual([undefined, 'inside']);
  });

  it('exits 2 for what would keep a run from starting', async () => {
    const none = await check([variant('none', {}), '--input', 'none.csv']);
    expect(none.code).toBe(2);
    expect(none.stderr).toContain('none.csv does not exist');
    const unknown = await check([variant('unknown', { prompt: '{{ nte }}' })]);
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('{{ note }}');
    const model = await check([variant('model', { service: { deployment: 'lm-4' } })]);
    expect(model.code).toBe(2);
    expect(model.stderr).toContain('conversation model');
  });

  it('ends at once when it is interrupted, and leaves no copy of standard input', async () => {
    const place = new Workplace();
    try {
      const job = place.job({ input: { path: '-', format: 'csv' }, output: { path: 'out.csv' } });
      // Standard input stays open, so that there is something to interrupt.
      const child = spawn(process.execPath, [join(ROOT, 'dist/cli.js'), 'check', job], { cwd: place.folder });
      const ended = once(child, 'close');
      await created(place.folder, '.promptmill', () => child.stdin.write('id\n1\n'));
      child.kill('SIGINT');
      expect(await ended).toEqual([130, null]);
      expect(readdirSync(place.path('.promptmill'))).toEqual([]);
    } finally {
      place.remove();
    }
  });
});

/** Waits until there is something of that name in a folder. */
async function created(folder: string, name: string, meanwhile: () => void): Promise<void> {
  const watcher = watch(folder);
  try {
    const found = new Promise<void>((resolve) => {
      watcher.on('change', (_, changed) => {
        if (changed === name) resolve();
      });
    });
    meanwhile();
    if (!existsSync(join(folder, name))) await found;
  } finally {
    watcher.close();
  }
}
