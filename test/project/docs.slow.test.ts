import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Command } from 'commander';
import { stringify as csv } from 'csv-stringify/sync';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { UnderWay } from '../../src/commands/exit-message.js';
import { wholeProgram } from '../../src/commands/program.js';
import { readFaultScript } from '../../src/emulator/fault-plan.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { argumentsOf, type Block, blocks, pages, shellCommands } from '../support/pages.js';
import { Workplace } from '../support/promptmill.js';

/**
 * What the README and the pages of `docs/` show works as it stands. The fence of a block says what it is:
 *
 *     sh            commands; those of Promptmill run, in a folder of their own, against an emulator
 *     yaml          a whole job file
 *     yaml part     a part of one
 *     yaml parts    lines that are a part each
 *     yaml prices   a file of prices
 *     yaml faults   a script of the emulator
 *     yaml other    a file of another program
 */
const ROOT = join(import.meta.dirname, '../..');
const YAML_MARKS = ['', 'part', 'parts', 'prices', 'faults', 'other'];
const OTHER_LANGUAGES = ['text', 'js', 'ini', 'cron', 'python', 'nginx', 'promql'];

const of = (language: string, mark: string): Block[] =>
  blocks.filter((block) => block.language === language && block.mark === mark);
const readme = pages.find(({ path }) => path === 'README.md')?.text ?? '';

let work = new Workplace();
afterEach(() => {
  work.remove();
  work = new Workplace();
});

it('each block is fenced, and its fence says what it is', () => {
  for (const { path, text } of pages) {
    const outside = text.replaceAll(/^```[\s\S]*?^```$/gm, '');
    expect(/(?:^|\n)\n {4}\S.*/.exec(outside)?.[0], path).toBeUndefined();
  }
  const unknown = blocks.filter(({ language, mark }) =>
    language === 'yaml'
      ? !YAML_MARKS.includes(mark)
      : mark !== '' || !['sh', ...OTHER_LANGUAGES].includes(language),
  );
  expect(unknown.map(({ at }) => at)).toEqual([]);
});

describe('a job file', () => {
  // biome-ignore lint/suspicious/noExplicitAny: as of YAML
  type Job = any;

  const BASE = {
    service: { deployment: 'lm-35-turbo-instruct' },
    input: { path: 'reviews.csv' },
    prompt: 'Review: {{ review }}',
    output: { path: 'out/reviews.csv' },
  };
  const parts = [
    ...of('yaml', 'part').map(({ at, text }) => ({ at, text })),
    ...of('yaml', 'parts').flatMap(({ at, text }) =>
      text
        .trim()
        .split('\n')
        .map((text) => ({ at, text })),
    ),
  ].map(({ at, text }) => ({ at, text: stringify({ ...BASE, ...parse(text) }), name: 'job.yaml' }));
  const wholes = of('yaml', '').map(({ at, text }) => {
    const [, name = 'job.yaml'] = /^# (jobs\/[\w-]+\.yaml)\n/.exec(text) ?? [];
    return { at, text, name };
  });

  /** The columns of its templates, and those that it names. */
  function columnsOf({ input, system = '', prompt = '', messages = [], answer = {} }: Job): string[] {
    const templates = [system, prompt, ...messages.map(({ content }: Job) => content)].join('\n');
    const inTemplates = [...templates.matchAll(/\{\{ ([\w ]+) \}\}/g)].map(([, column]) => column);
    const { gold } = answer;
    const golds = Object.values(gold?.columns ?? [gold]).map((each: Job) => each?.column ?? each);
    const columns = [...inTemplates, ...(input.require ?? []), input.id, ...golds];
    return [...new Set(columns)].filter((column) => column !== undefined);
  }

  it.each([...wholes, ...parts])('$at passes `check`', async ({ text, name }) => {
    const job: Job = parse(text);
    const { answer = {}, on_finish: hook } = job;
    const columns = columnsOf(job);
    const right = answer.labels?.[0] ?? answer.number?.max;
    const row = (n: number): unknown[] =>
      columns.map((column) => (column === answer.gold ? right : `${column} ${n}`));
    work.write(job.input.path, csv([columns, row(1), row(2), row(3)]));
    for (const known of job.input.done ?? []) work.write(known, '');
    for (const { text } of of('yaml', 'prices')) work.write('prices.yaml', text);
    if (hook !== undefined) symlinkSync(process.execPath, work.path(hook.command[0]));
    const { code, stderr } = await work.call(['check', work.write(name, text)]);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('3 rows = 3 to send');
    expect(stderr).not.toContain('mistakes?');
  });

  it.each(of('yaml', 'other'))('$at, of another program, can be read', ({ text }) => {
    expect(() => parse(text)).not.toThrow();
  });

  it.each(of('yaml', 'faults'))('$at, a script of the emulator, can be read', ({ text }) => {
    work.write('script.yaml', text);
    expect(readFaultScript(work.path('script.yaml'))).toHaveLength(parse(text).length);
  });
});

describe('a command', () => {
  let emulator: Emulator;
  let program: Command;
  /** What a user has after the first run. */
  const template = new Workplace();
  const ran: string[] = [];
  const parsed: string[] = [];

  /** Once, in the first run: then there is something to retry. */
  const FAILING_ROW = {
    prompt: 'Bright enough, but the button',
    times: 1,
    fault: { kind: 'reply', name: 'reply', reply: { status: 422, headers: {}, body: {} } },
  } as const;
  const KEYS = ['emulator-key-of-the-docs', 'another-key-of-the-docs'] as const;
  const call = (place: Workplace, args: readonly string[]) =>
    place.call(args, { PROMPTMILL_BASE_URL: emulator.url, PROMPTMILL_API_KEY: KEYS[0] });

  beforeAll(async () => {
    emulator = await startEmulator({
      keys: KEYS,
      deployments: { small: 'lm-35-turbo-instruct' },
      script: [FAILING_ROW],
    });
    program = await wholeProgram(() => {}, new UnderWay());
    for (const command of program.commands)
      for (const each of [command, ...command.commands]) each.exitOverride().action(() => {});

    const input = readFileSync(join(ROOT, 'samples/reviews.csv'));
    template.write('reviews.csv', input);
    template.write('reviews.csv.gz', gzipSync(input));
    template.write('samples/reviews.csv', input);
    template.write('samples/messages.jsonl', readFileSync(join(ROOT, 'samples/messages.jsonl')));
    cpSync(join(ROOT, 'jobs'), template.path('jobs'), { recursive: true });
    const job = parse(/```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? '');
    template.write(
      'jobs/reviews.yaml',
      stringify({ ...job, answer: { ...job.answer, gold: 'sentiment_true' } }),
    );
    for (const name of ['a', 'b', 'shorter']) template.write(`${name}.txt`, 'Is it good? {{ review }}');

    // Files that the commands of a page name, made by a run.
    const first = await call(template, ['run', 'jobs/reviews.yaml']);
    expect(first.code, first.stderr).toBe(1);
    const second = await call(template, ['run', 'jobs/reviews.yaml', '--output', 'new.jsonl.gz']);
    expect(second.code, second.stderr).toBe(0);
    for (const name of ['out/monday.csv', 'out/tuesday.csv', 'old.csv', 'new.csv'])
      cpSync(template.path('out/reviews.csv'), template.path(name));
    template.write('gold.csv', 'review_id,truth\nR0001,neutral\nR0002,negative\n');
    template.write('out/reviews.review.csv', 'row,answer\n2,positive\n');
  });

  afterAll(async () => {
    template.remove();
    await emulator.close();
    const lines = [`commands of the pages that ran (${ran.length}):`, ...ran];
    console.log([...lines, `\nparsed only (${parsed.length}):`, ...parsed].join('\n  '));
  });

  /** What waits for others, or needs a server that is not here. */
  const isParsedOnly = (args: readonly string[]): boolean =>
    ['serve', 'work', 'emulate'].includes(args[0] ?? '') ||
    args.includes('--watch') ||
    args.some((word) => /^rediss?:/.test(word));

  async function parseOnly(args: readonly string[], at: string): Promise<void> {
    await expect(
      program.parseAsync(args, { from: 'user' }),
      `${at}: ${args.join(' ')}`,
    ).resolves.toBeDefined();
    parsed.push(args.join(' '));
  }

  const shells = blocks.filter(
    ({ language, text }) =>
      language === 'sh' && shellCommands(text).some((command) => argumentsOf(command) !== null),
  );

  it.each(shells)('of $at runs', async ({ at, text }) => {
    const isAfterRun = /\bout\/|\bold\.csv|--extend|--retry-failed/.test(text);
    const isLeft = (path: string): boolean => isAfterRun || !/\/(?:out|\.promptmill)$/.test(path);
    cpSync(template.folder, work.folder, { recursive: true, filter: isLeft });
    for (const command of shellCommands(text)) {
      const args = argumentsOf(command);
      if (args === null) continue;
      if (isParsedOnly(args)) {
        await parseOnly(args, at);
        continue;
      }
      const asked = ['--prompt', 'Classify the sentiment.', '--labels', 'positive,negative,neutral'];
      const all = args[0] === 'init' && args.length === 2 ? [...args, ...asked, '--force'] : args;
      const { code, stderr } = command.isPiped
        ? await work.run(all, {}, work.read('reviews.csv'))
        : await call(work, all);
      expect(code, `${at}: ${args.join(' ')}\n${stderr}`).toBe(0);
      ran.push(args.join(' '));
    }
  });

  it.each(
    blocks.filter(({ language, mark }) => ['ini', 'cron', 'python'].includes(language) || mark === 'other'),
  )('in $at is one', async ({ at, text }) => {
    const lines = text
      .replaceAll(/", "?/g, ' ')
      .replaceAll('{{ ds }}', 'DAY')
      .replaceAll(/args: \[(.*?)\]/g, (_, words: string) => `npx promptmill ${words.replaceAll(',', '')}`);
    const calls = [...lines.matchAll(/(?:npx |node_modules\/\.bin\/)promptmill [^"\]\n]*/g)];
    for (const args of shellCommands(calls.join('\n')).map(argumentsOf)) {
      if (args !== null) await parseOnly(args, at);
    }
  });

  it('in the middle of a text is one, with options that it has', () => {
    for (const { path, text } of pages) {
      for (const [, call = ''] of text.matchAll(/`(?:npx )?promptmill ([a-z][^`]*)`/g)) {
        const [name = '', ...words] = call.split(/\s+/);
        const command = program.commands.find((each) => each.name() === name);
        expect(command, `${path}: ${call}`).toBeDefined();
        const known = [command, ...(command?.commands ?? [])].flatMap((each) => each?.options ?? []);
        for (const word of words.filter((word) => word.startsWith('--')))
          expect(known.some(({ long }) => long === word) || word === '--help', `${path}: ${call}`).toBe(true);
      }
    }
  });

  it('of npm is a script of the project', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const named = pages.flatMap(({ text }) =>
      [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name),
    );
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => name !== undefined && !Object.hasOwn(scripts, name))).toEqual([]);
  });
});

describe('a link', () => {
  /** As GitHub and the site make it of a heading. */
  const anchor = (heading: string): string =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
  const anchors = (path: string): string[] =>
    [...readFileSync(join(ROOT, path), 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      anchor(heading),
    );

  it.each(pages)('of $path leads somewhere', ({ path, text }) => {
    for (const [, target = ''] of text.matchAll(/\]\(([^)]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [file = '', heading] = target.split('#');
      const there = file === '' ? path : join(path, '..', file);
      expect(existsSync(join(ROOT, there)), `${path}: ${target}`).toBe(true);
      if (heading !== undefined) expect(anchors(there), `${path}: ${target}`).toContain(heading);
    }
  });
});

describe('the README', () => {
  it('begins with the two commands that a stranger types', () => {
    expect(readme).toContain(
      '```sh\nnpm ci && npx promptmill run jobs/sentiment.yaml --emulate\nnpm ci && npm test\n```',
    );
  });

  it('shows what the first of them ends with', async () => {
    for (const folder of ['jobs', 'samples']) symlinkSync(join(ROOT, folder), work.path(folder));
    const { stderr } = await work.call(['run', 'jobs/sentiment.yaml', '--emulate']);
    const [, shown = ''] = /^The first ends like this[\s\S]*?```text\n([\s\S]*?)```/m.exec(readme) ?? [];
    expect(shown).toContain('accuracy');
    expect(stderr).toContain(shown.trim());
  });

  it('is short', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(150);
  });
});
