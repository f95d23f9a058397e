import { existsSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { init } from '../../src/commands/init.js';
import { Workplace } from '../support/promptmill.js';

const work = new Workplace();
afterAll(() => work.remove());

const flags = ['--prompt', 'Classify the sentiment.', '--labels', 'positive,negative'];
const yaml = (name: string) => parse(work.read(name));

describe('promptmill init with options', () => {
  it('writes a job file that check takes, with comments, and says what comes next', async () => {
    work.write(
      'reviews.csv',
      'id,title,review\n1,Lamp,"Bright, and it lasts for years"\n2,Chair,Broke at once\n',
    );
    const { code, stdout, stderr } = await work.call(['init', 'reviews.csv', ...flags]);
    expect(code, stderr).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toContain('jobs/reviews.yaml is written');
    expect(stderr).toMatch(
      / {2}promptmill check jobs\/reviews.yaml\n {2}promptmill run jobs\/reviews.yaml --emulate\n/,
    );
    expect(work.read('jobs/reviews.yaml')).toContain('# Columns: id, title, review\n');
    expect(yaml('jobs/reviews.yaml')).toMatchObject({
      name: 'reviews',
      input: { path: 'reviews.csv', require: ['review'] },
      prompt: [
        'Classify the sentiment.',
        'Answer with one of these words and nothing else: positive, negative',
        '',
        'review: {{ review }}',
        'Answer:',
      ].join('\n'),
      answer: { labels: ['positive', 'negative'] },
      output: {
        path: 'out/reviews.csv',
        columns: [
          ...['input', 'answer', 'evidence', 'status'],
          ...['prompt_filtered', 'completion_filtered', 'error_message'],
        ],
      },
    });
    const checked = await work.call(['check', 'jobs/reviews.yaml']);
    expect(checked.code, checked.stderr).toBe(0);
    expect(checked.stderr).toContain('2 rows = 2 to send');
    expect(checked.stderr).toMatch(
      /columns +id, title, review, answer, status, prompt_filtered, completion_filtered,\s+error_message\n/,
    );
  });

  it.each([
    ['quotes', '"say ""hi"""', 'say "hi"'],
    ['a colon', 'what: this', 'what: this'],
    ['a brace', 'a{b', 'a{b'],
    ['a hash', '#id', '#id'],
    ['a sign of templates', '^up', '^up'],
    ['an ampersand', '& more', '& more'],
    ['a comment', 'a # b', 'a # b'],
    ['a line break', '"two\nlines: [x"', 'two\nlines: [x'],
    ['other scripts', 'Größe 評判', 'Größe 評判'],
    ['spaces around it', ' review ', ' review '],
    ['no name', '', 'column_2'],
    ['a number', '1', '1'],
    ['a word of YAML', 'null', 'null'],
    ['a dash', '- item', '- item'],
    ['an escape sequence', '\u001b[2Jx', '\u001b[2Jx'],
    ['a name that no template can say', 'a}}b', 'id'],
    ['a name that looks like a tag', '{{id}}', 'id'],
  ])('a header with %s makes a job that check takes', async (name, header, column) => {
    const file = `${name}'s "data".csv`;
    work.write(file, `id,${header}\n1,a long text about something\n`);
    const job = `jobs/${name}.yaml`;
    const { code, stderr } = await work.call(['init', file, ...flags, '--job', job]);
    expect(code, stderr).toBe(0);
    expect(yaml(job).input).toEqual({ path: file, require: [column] });
    const checked = await work.call(['check', job, '--json']);
    expect(checked.code, checked.stderr).toBe(0);
    expect(JSON.parse(checked.stdout).rows.to_send).toBe(1);
  });

  it('takes a prompt with tags as it is, and a JSON Schema into the job', async () => {
    work.write('facts.json', '{"type": "object", "properties": {"order: no": {"type": ["string", "null"]}}}');
    work.write('in.jsonl', '{"id": 1, "message": "where is it?", "customer": {"name": "Ann"}}\n');
    const prompt = 'Facts from {{ message }} of {{ customer.name }}:';
    const options = [
      '--prompt',
      prompt,
      '--json-schema',
      'facts.json',
      '--output',
      'found.csv',
      '--name',
      'facts',
    ];
    const { code, stderr } = await work.call(['init', '--input', 'in.jsonl', ...options]);
    expect(code, stderr).toBe(0);
    const job = yaml('jobs/facts.yaml');
    expect(job.prompt).toBe(prompt);
    expect(job.input).toEqual({ path: 'in.jsonl' });
    expect(job.answer.json.properties).toEqual({ 'order: no': { type: ['string', 'null'] } });
    expect(job.output.path).toBe('found.csv');
    expect(job.output.columns).toContain('error_code');
    expect((await work.call(['check', 'jobs/facts.yaml'])).code).toBe(0);
  });

  it.each([
    ['its one column', 'Say {{ id }} aloud', ['id']],
    [
      'no column where it asks itself whether one is there',
      '{{#review}}About {{ review }}{{/review}}',
      undefined,
    ],
  ])('requires of a prompt with tags %s', async (_, prompt, require) => {
    work.write('own.csv', 'id,review\n1,a long text about something\n');
    const { code, stderr } = await work.call(['init', 'own.csv', '--yes', '--prompt', prompt, '--force']);
    expect(code, stderr).toBe(0);
    expect(yaml('jobs/own.yaml').input.require).toEqual(require);
  });

  it('leaves the prompt to rows that bring their own', async () => {
    work.write('batch.jsonl', '{"custom_id": "a", "body": {"prompt": "Say hello", "max_tokens": 3}}\n');
    expect((await work.call(['init', 'batch.jsonl', '--yes'])).code).toBe(0);
    expect(yaml('jobs/batch.yaml')).not.toHaveProperty('prompt');
    expect(yaml('jobs/batch.yaml').output).toEqual({ path: 'out/batch.jsonl' });
    expect((await work.call(['check', 'jobs/batch.yaml'])).code).toBe(0);
  });

  it('says which rows it looked at where a later one has the column that is missed', async () => {
    work.write('many.jsonl', `${'{"text": "good"}\n'.repeat(200)}{"text": "good", "late": 1}\n`);
    const { code, stderr } = await work.call(['init', 'many.jsonl', '--yes', '--prompt', '{{ late }}']);
    expect(code).toBe(2);
    expect(stderr).toContain(
      'prompt uses {{ late }}, but many.jsonl, in its first 200 rows, has no such column',
    );
  });

  it('writes a sample job that runs, for who has nothing yet', async () => {
    const { code, stderr } = await work.call(['init', '--sample']);
    expect(code, stderr).toBe(0);
    const next = / {2}promptmill (run .*)\n/.exec(stderr)?.[1] ?? '';
    const run = await work.call([...next.split(' '), '--limit', '5']);
    expect(run.code, run.stderr).toBe(0);
    expect(work.records('out/reviews.emulated.csv')).toHaveLength(5);
    expect((await work.call(['init', '--sample'])).stderr).toContain('jobs/sentiment.yaml');
    expect((await work.call(['init', '--sample', '--force'])).code).toBe(0);
  });

  it('replaces a file that is there only with --force', async () => {
    work.rows(2);
    work.write('mine.yaml', 'mine');
    const args = ['init', 'rows.csv', ...flags, '--job', 'mine.yaml'];
    const refused = await work.call(args);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('mine.yaml is there already');
    expect(work.read('mine.yaml')).toBe('mine');
    expect((await work.call([...args, '--force'])).code).toBe(0);
    expect(yaml('mine.yaml').input.path).toBe('rows.csv');
  });

  it.each([
    ['nothing at all', [], /nothing says the data file, .*\n.*--prompt TEXT .*--labels a,b/],
    ['no prompt', ['rows.csv'], /nothing says what to do with each row/],
    ['a file that is not there', ['none.csv', ...flags], /none\.csv does not exist/],
    [
      'one label',
      ['rows.csv', '--prompt', 'x', '--labels', 'yes'],
      /labels must be two or more .* got "yes"/,
    ],
    ['a label twice', ['rows.csv', '--prompt', 'x', '--labels', 'a,a'], /answer\.labels/],
    ['an unknown column', ['rows.csv', '--prompt', '{{ nte }}'], /did you mean \{\{ note \}\}\?/],
    ['a bad name', ['rows.csv', ...flags, '--name', 'a b'], /name may hold letters/],
    ['a bad output', ['rows.csv', ...flags, '--output', 'x.doc'], /x\.doc/],
    ['no schema', ['rows.csv', '--prompt', 'x', '--json-schema', 'rows.csv'], /rows\.csv is no JSON Schema/],
    [
      'two files',
      ['rows.csv', '--input', 'b.csv', ...flags],
      /the data file is rows\.csv, and --input says b\.csv/,
    ],
  ])('without a terminal, %s is a sentence, exit code 2 and no file', async (_name, args, message) => {
    work.rows(2);
    const { code, stderr } = await work.call(['init', ...args]);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
    expect(existsSync(work.path('jobs/rows.yaml'))).toBe(false);
  });
});

/** A terminal at which the lines are typed, each when it is asked for. */
function terminal(lines: readonly string[]) {
  const input = new PassThrough();
  const output = Object.assign(new PassThrough(), { columns: 80 });
  const left = [...lines];
  let shown = '';
  output.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    if (text.includes('> ') && left.length > 0) input.write(left.shift());
  });
  return { place: { input, output, isTerminal: true }, shown: () => shown };
}

describe('promptmill init on a terminal', () => {
  const data = () => work.path(work.write('asked.csv', 'id,note\n1,a text that is long\n'));

  it('asks five questions, again where the answer is none, and writes the job', async () => {
    const job = work.path('asked.yaml');
    const lines = [
      'nowhere.csv\r',
      `${data()}\r`,
      'talk\r',
      'chat\r',
      '\r',
      '{{ nte }}\r',
      'Is it good?\r',
      'yes,no\r',
      'a.doc\r',
      '\r',
    ];
    const { place, shown } = terminal(lines);
    expect(await init(undefined, { job }, place)).toBe(0);
    for (const text of [
      '1/5',
      'Say completions or chat, got talk',
      'nowhere.csv does not exist',
      'Columns: id, note',
      'did you mean {{ note }}?',
      '3/5',
      '{{ note }}',
      '4/5',
      '5/5',
    ])
      expect(shown()).toContain(text);
    expect(yaml('asked.yaml')).toMatchObject({
      service: { operation: 'chat', deployment: 'lm-35-turbo' },
      answer: { labels: ['yes', 'no'] },
      output: { path: 'out/asked.csv' },
    });
    expect(yaml('asked.yaml').prompt).toContain('note: {{ note }}');
  });

  it.each([
    ['Ctrl-C', '\u0003'],
    ['the end of the input', '\u0004'],
  ])('%s at a question ends with 130, and nothing is written', async (_name, key) => {
    const job = work.path('left.yaml');
    const { place, shown } = terminal(['Is it good?\r', key]);
    expect(await init(data(), { job }, place)).toBe(130);
    expect(shown()).toMatch(/nothing was written\n$/);
    expect(existsSync(job)).toBe(false);
  });
});
