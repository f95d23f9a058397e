import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

const CSV = 'id,Review Text,gold\n1,Lovely and warm,good\n2,Broke at once,bad\n3,It is a shirt,good\n';
const SERVICE = 'service: { deployment: lm-35-turbo-instruct }';
const INPUT = 'input: { path: reviews.csv }';
const PROMPT = 'prompt: "Good or bad? {{ Review Text }}"';
/** The lines that every job has, and others behind them: line 4 is the first of those. */
const job = (...lines: string[]): string => [SERVICE, INPUT, PROMPT, ...lines, ''].join('\n');

/** A beginner's mistake, as it is typed, and what a good message has to say of it. */
interface Mistake {
  readonly name: string;
  /** The job file job.yaml. @default a sound one */
  readonly job?: string | Buffer;
  readonly files?: Readonly<Record<string, string | Buffer>>;
  /** The words behind `promptmill`. @default `check job.yaml` */
  readonly typed?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** @default 2 */
  readonly exit?: number;
  /** What happened, where, and the value: each of these is said. */
  readonly says: readonly (string | RegExp)[];
  /** What to do. */
  readonly advises: string | RegExp;
}

const checked = ['check', 'job.yaml'];
const run = ['run', 'job.yaml'];

let service: ScriptedService;
let plain: ReturnType<typeof createServer>;
let plainPort = 0;

const MISTAKES: readonly Mistake[] = [
  // What is typed
  {
    name: 'data in place of a command',
    typed: ['reviews.csv'],
    says: ['reviews.csv', 'data by its name'],
    advises: 'promptmill init reviews.csv',
  },
  ...[
    // Before the input is read, which is not there.
    {
      typed: [...run, '--queue', 'postgresql://mill:typed-secret@db/mill', '--input', 'gone.csv'],
      env: {},
    },
    { typed: run, env: { PROMPTMILL_QUEUE: 'postgres://mill:typed-secret@db/mill' } },
    { typed: ['work'], env: { PROMPTMILL_QUEUE: 'postgres://mill:typed-secret@db/mill' } },
    { typed: ['status'], env: { PROMPTMILL_QUEUE: 'postgres://mill:typed-secret@db/mill' } },
  ].map(
    ({ typed, env }): Mistake => ({
      name: `a queue on PostgreSQL, for ${typed[0]}`,
      typed,
      env: { PROMPTMILL_BASE_URL: 'SERVICE', ...env },
      says: [/^(?!.*typed-secret).*the queue "postgres(ql)?:\/\/mill:\*\*\*@db\/mill" is of an unknown kind/],
      advises: 'Use embedded, or a Redis or Valkey: redis://HOST:PORT',
    }),
  ),
  {
    name: 'a job in place of a command',
    typed: ['job.yaml'],
    says: ['job.yaml', 'job file by its name'],
    advises: 'promptmill run job.yaml',
  },
  {
    name: 'a command that is misspelt',
    typed: ['chekc', 'job.yaml'],
    says: ['chekc'],
    advises: 'did you mean check?',
  },
  {
    name: 'a command of another name',
    typed: ['validate', 'job.yaml'],
    says: ['there is no command validate'],
    advises: 'did you mean check?',
  },
  {
    name: 'an unknown option',
    typed: ['run', 'job.yaml', '--concurency', '5'],
    says: ['--concurency'],
    advises: '--concurrency',
  },
  {
    name: 'a number with a unit in an option',
    typed: ['run', 'job.yaml', '--limit', '10k'],
    says: ['--limit', '10k'],
    advises: 'whole number',
  },
  {
    name: 'no job at all',
    typed: ['run'],
    says: ['missing required argument', 'job'],
    advises: 'promptmill run --help says more',
  },
  {
    name: 'a job file that is not there',
    typed: ['check', 'jobb.yaml'],
    says: ['no job file jobb.yaml'],
    advises: 'did you mean job.yaml?',
  },
  {
    name: 'the data in place of the job',
    typed: ['check', 'reviews.csv'],
    says: ['reviews.csv is data'],
    advises: 'promptmill init reviews.csv',
  },
  {
    name: 'a folder in place of the job',
    typed: ['check', 'folder'],
    says: ['folder is a folder'],
    advises: 'path of one YAML file',
  },
  {
    name: 'a workbook in place of the job',
    typed: ['check', 'data.xlsx'],
    files: { 'data.xlsx': 'PK' },
    says: ['data.xlsx is an Excel workbook'],
    advises: 'Save the sheet as "CSV UTF-8"',
  },
  // YAML
  {
    name: 'a tab',
    job: job('limits:', '\tattempts: 3'),
    says: ['job.yaml:5', 'a tab begins the line'],
    advises: 'spaces only',
  },
  {
    name: 'braces without quotes',
    job: `${SERVICE}\n${INPUT}\nprompt: {{ Review Text }}\n`,
    says: ['job.yaml:3', '{{ Review Text }}'],
    advises: 'put a text with {{ }} in quotes',
  },
  {
    name: 'a quote that is never closed',
    job: job('name: "x'),
    says: ['job.yaml:5', 'never closed'],
    advises: 'put its other one where it ends',
  },
  {
    name: 'a colon in a text',
    job: `${SERVICE}\n${INPUT}\nprompt: Classify: {{ Review Text }}\n`,
    says: ['job.yaml:3'],
    advises: 'in quotes',
  },
  {
    name: 'the same field twice',
    job: job(INPUT),
    says: ['job.yaml:4', 'field input stands here a second time'],
    advises: 'take one away',
  },
  // Fields
  {
    name: 'a field that is misspelt',
    job: job('limits: { concurency: 5 }'),
    says: ['job.yaml:4', 'limits.concurency'],
    advises: 'did you mean limits.concurrency?',
  },
  {
    name: 'a field at the wrong place',
    job: job('max_tokens: 5'),
    says: ['job.yaml:4', 'max_tokens'],
    advises: 'write it as parameters.max_tokens',
  },
  {
    name: 'the key in the job file',
    job: job('api_key: sk-1234'),
    says: ['job.yaml:4', 'api_key'],
    advises: 'set PROMPTMILL_API_KEY in the environment or in .env',
  },
  {
    name: 'messages',
    job: `${SERVICE}\n${INPUT}\nmessages: [{ role: user, content: hello }]\n`,
    says: ['job.yaml:3', 'messages', 'the completions operation takes one text'],
    advises: 'needs service: { operation: chat }',
  },
  {
    name: 'style: chat',
    job: `service: { deployment: d, style: chat }\n${INPUT}\n${PROMPT}\n`,
    says: ['job.yaml:1', 'service.style', '"chat"', 'write service: { operation: chat }'],
    advises: 'must be deployments or openai',
  },
  {
    name: 'a time with its unit',
    job: job('limits: { timeout: 5s }'),
    says: ['job.yaml:4', 'limits.timeout'],
    advises: 'did you mean limits.timeout_seconds?',
  },
  {
    name: 'seconds with their unit',
    job: job('limits: { timeout_seconds: 5s }'),
    says: ['job.yaml:4', 'limits.timeout_seconds', '"5s"'],
    advises: 'write 5',
  },
  {
    name: 'a number with separators',
    job: job('limits: { tokens_per_minute: 90_000 }'),
    says: ['job.yaml:4', 'limits.tokens_per_minute', '"90_000"'],
    advises: 'write 90000',
  },
  {
    name: 'a share in percent',
    job: job('answer: { labels: [good, bad], require: { valid: 98 } }'),
    says: ['job.yaml:4', 'answer.require.valid', '98'],
    advises: 'write 0.98 for 98 %',
  },
  {
    name: 'a temperature that is too high',
    job: job('parameters: { temperature: 20 }'),
    says: ['job.yaml:4', 'parameters.temperature', '20'],
    advises: 'between 0 and 2',
  },
  {
    name: 'labels as one text',
    job: job('answer: { labels: "good, bad" }'),
    says: ['job.yaml:4', 'answer.labels', '"good, bad"'],
    advises: 'a list of labels',
  },
  {
    name: 'yes as a label',
    job: job('answer: { labels: [true, false] }'),
    says: ['job.yaml:4', 'entry 1 of answer.labels', 'true'],
    advises: 'write "true", in quotes',
  },
  {
    name: 'a budget without prices',
    job: job('limits: { budget: { cost: 25 } }'),
    says: ['job.yaml:4', 'limits.budget.cost', '25'],
    advises: 'prices: { prompt: 0.0015, completion: 0.002 }',
  },
  {
    name: 'no tokens for the answer',
    job: job('parameters: { max_tokens: 0 }', 'answer: { labels: [good, bad] }'),
    says: ['job.yaml:4', 'parameters.max_tokens', '0'],
    advises: 'must be at least 1',
  },
  {
    name: 'a schema with a keyword that does not exist',
    job: job('answer:', '  json:', '    type: object', '    propertys: { a: { type: string } }'),
    says: ['job.yaml:7', 'answer.json.propertys'],
    advises: 'did you mean properties?',
  },
  {
    name: 'another one, deeper',
    job: job(
      'answer:',
      '  json:',
      '    type: object',
      '    properties:',
      '      a:',
      '        type: object',
      '        requierd: [b]',
    ),
    says: ['job.yaml:10', 'answer.json.properties.a.requierd'],
    advises: 'did you mean required?',
  },
  {
    name: 'a type that does not exist',
    job: job('answer:', '  json:', '    type: object', '    properties:', '      age: { type: int }'),
    says: ['job.yaml:8', 'answer.json.properties.age.type', '"int"'],
    advises: 'did you mean integer?',
  },
  {
    name: 'properties in place of a schema',
    job: job('answer:', '  json:', '    sentiment: string'),
    says: ['job.yaml:6', 'answer.json.sentiment'],
    advises: 'properties: { sentiment: { type: string } }',
  },
  {
    name: 'required at the property',
    job: job(
      'answer:',
      '  json:',
      '    type: object',
      '    properties:',
      '      a: { type: string, required: true }',
    ),
    says: ['job.yaml:8', 'answer.json.properties.a.required', 'true'],
    advises: 'beside properties',
  },
  {
    name: 'a bad cron expression',
    job: job('schedule: { cron: "every day" }'),
    says: ['job.yaml:4', 'schedule.cron', 'every day'],
    advises: /field|minute/,
  },
  // The environment in the job file
  {
    name: 'a variable that is not set',
    job: job().replace('lm-35-turbo-instruct', `"\${MODEL}"`),
    env: { MODLE: 'x' },
    says: ['job.yaml:1', 'service.deployment', `\${MODEL}`, 'not set'],
    advises: 'did you mean MODLE? Set MODEL',
  },
  {
    name: 'a variable without quotes between braces',
    job: job().replace('lm-35-turbo-instruct', `\${MODEL}`),
    env: { MODEL: 'x' },
    says: ['job.yaml:1', `\${MODEL}`],
    advises: 'in quotes',
  },
  {
    name: 'a key by its variable',
    job: job(`name: \${PROMPTMILL_API_KEY}`),
    says: ['job.yaml:4', 'name', 'PROMPTMILL_API_KEY'],
    advises: 'Take it out',
  },
  // Prompt and data
  {
    name: 'single braces',
    job: `${SERVICE}\n${INPUT}\nprompt: "Good or bad? {Review Text}"\n`,
    says: ['reviews.csv', '{Review Text}', 'all 3 rows'],
    advises: 'Write {{ Review Text }}',
  },
  {
    name: 'single braces beside a column',
    job: `${SERVICE}\n${INPUT}\nprompt: "{Review Text} {{ id }}"\n`,
    exit: 0,
    says: ['{Review Text}', 'sent as it is'],
    advises: 'write {{ Review Text }}',
  },
  {
    name: 'a prompt without a column',
    job: `${SERVICE}\n${INPUT}\nprompt: Is it good?\n`,
    says: ['no {{ column }}', 'reviews.csv'],
    advises: 'Put the column in',
  },
  {
    name: 'prompts that are all the same',
    job: `${SERVICE}\n${INPUT}\nprompt: "{{ note }}"\n`.replace('{{ note }}', 'Now: {{^id}}x{{/id}}'),
    exit: 0,
    says: ['all 3 prompts are the same'],
    advises: 'do the columns of the prompt have the values',
  },
  {
    name: 'a column that is not there',
    job: job().replace('{{ Review Text }}', '{{ review_text }}'),
    says: ['{{ review_text }}', 'reviews.csv'],
    advises: 'did you mean {{ Review Text }}?',
  },
  {
    name: 'a required column that is not there',
    job: job().replace('reviews.csv', 'reviews.csv, require: [reveiw]'),
    says: ['input.require', '"reveiw"', 'reviews.csv'],
    advises: 'Columns: id, Review Text, gold',
  },
  {
    name: 'an input that is not there',
    job: job().replace('reviews.csv', 'review.csv'),
    says: ['review.csv does not exist'],
    advises: 'Check input.path, or --input',
  },
  {
    name: 'an address in place of an input',
    job: job().replace('reviews.csv', 'https://example.net/reviews.csv'),
    says: ['https://example.net/reviews.csv does not exist'],
    advises: 'fetch it first',
  },
  {
    name: 'a pattern in place of an input',
    job: job().replace('reviews.csv', '"re*.csv"'),
    says: ['re*.csv does not exist'],
    advises: 'put the files together first',
  },
  {
    name: 'a log level that there is not',
    typed: run,
    env: { PROMPTMILL_LOG_LEVEL: 'verbose' },
    says: ['log level', 'verbose'],
    advises: 'PROMPTMILL_LOG_LEVEL',
  },
  {
    name: 'a folder as the input',
    job: job().replace('reviews.csv', 'folder'),
    says: ['folder'],
    advises: /Name a file inside it|known endings/,
  },
  {
    name: 'a workbook',
    job: job().replace('reviews.csv', 'data.xlsx'),
    files: { 'data.xlsx': Buffer.from('PK\x03\x04....xl/workbook.xml') },
    says: ['data.xlsx is an Excel workbook'],
    advises: 'Save the sheet as "CSV UTF-8"',
  },
  {
    name: 'Parquet',
    job: job().replace('reviews.csv', 'data.parquet'),
    files: { 'data.parquet': 'PAR1....' },
    says: ['data.parquet is a Parquet file'],
    advises: 'Convert it',
  },
  {
    name: 'JSON that is one list',
    job: job().replace('reviews.csv', 'data.jsonl'),
    files: { 'data.jsonl': '[{"a": 1},\n {"a": 2}]\n' },
    says: ['data.jsonl is one JSON array'],
    advises: "jq -c '.[]'",
  },
  {
    name: 'an encoding of a spreadsheet',
    files: { 'reviews.csv': Buffer.from('id,Review Text\n1,sch\xf6n\n', 'latin1') },
    says: ['reviews.csv'],
    advises: /input\.encoding|windows-1252/,
  },
  {
    name: 'no quotes around commas',
    files: { 'reviews.csv': 'id,Review Text\n1,good, really\n' },
    exit: 1,
    says: ['ragged_record', 'line 2', '3 cells'],
    advises: /quote/,
  },
  {
    name: 'the input as the output',
    job: job('output: { path: reviews.csv }'),
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'SERVICE' },
    says: ['reviews.csv'],
    advises: /--output|output\.path/,
  },
  {
    name: 'an output of another kind',
    job: job('output: { path: out.xlsx }'),
    says: ['out.xlsx'],
    advises: 'output.path',
  },
  // The service
  { name: 'no address', typed: run, says: ['PROMPTMILL_BASE_URL is not set'], advises: 'or use --emulate' },
  {
    name: 'an address without its scheme',
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'example.net' },
    says: ['PROMPTMILL_BASE_URL', 'example.net'],
    advises: 'https://example.net',
  },
  {
    name: 'no key',
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'SERVICE', PROMPTMILL_API_KEY: '' },
    says: ['PROMPTMILL_API_KEY'],
    advises: /Set|\.env/,
  },
  {
    name: 'a wrong key',
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'SERVICE', PROMPTMILL_API_KEY: 'bad-key' },
    exit: 3,
    says: ['PROMPTMILL_API_KEY', '401'],
    advises: /valid|key/,
  },
  {
    name: 'a wrong deployment',
    job: job().replace('lm-35-turbo-instruct', 'my-modle'),
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'SERVICE' },
    exit: 3,
    says: ['deployment_not_found'],
    advises: 'service.deployment',
  },
  {
    name: 'https to a port that speaks http',
    typed: run,
    env: { PROMPTMILL_BASE_URL: 'https://127.0.0.1:PLAIN' },
    exit: 3,
    says: ['127.0.0.1:PLAIN', 'speaks http and not https'],
    advises: 'Write http:// in place of https://',
  },
  {
    name: 'a conversation model',
    job: job().replace('lm-35-turbo-instruct', 'lm-4'),
    says: ['service.deployment', 'lm-4'],
    advises: /conversation|completions/,
  },
  {
    name: 'a queue that is no address',
    typed: [...run, '--queue', 'localhost:6379'],
    env: { PROMPTMILL_BASE_URL: 'SERVICE' },
    says: ['localhost:6379'],
    advises: 'redis://',
  },
  {
    name: 'a program that is not there',
    job: job('on_finish: { command: [./notify.sh] }'),
    says: ['job.yaml', 'on_finish.command', 'notify.sh'],
    advises: 'Give its path',
  },
  {
    name: 'a port that is taken',
    typed: ['emulate', '--port', 'PLAIN'],
    says: ['PLAIN'],
    advises: /another|--port/,
  },
];

const work = new Workplace();
beforeAll(async () => {
  service = await startScriptedService(({ headers, url }) => {
    if (headers['api-key'] !== 'good-key')
      return {
        status: 401,
        json: { error: { code: '401', message: 'Access denied due to invalid subscription key.' } },
      };
    if (!url.includes('lm-35-turbo-instruct'))
      return {
        status: 404,
        json: {
          error: {
            code: 'DeploymentNotFound',
            message: 'The API deployment for this resource does not exist.',
          },
        },
      };
    return {};
  });
  plain = createServer((_, response) => void response.end('hello')).listen(0, '127.0.0.1');
  await new Promise((resolve) => plain.once('listening', resolve));
  plainPort = (plain.address() as AddressInfo).port;
});
afterAll(async () => {
  await service.close();
  plain.close();
  plain.closeAllConnections();
  work.remove();
});

const placed = (text: string): string =>
  text.replaceAll('SERVICE', service.url).replaceAll('PLAIN', String(plainPort));
const isIn = (text: string, part: string | RegExp): boolean =>
  typeof part === 'string' ? text.includes(placed(part)) : part.test(text);

/** Whether the message names what happened and where, and whether it says what to do: a point each. */
async function scored(mistake: Mistake, number: number) {
  const place = new Workplace();
  try {
    place.write('reviews.csv', CSV);
    place.write('job.yaml', mistake.job ?? job());
    mkdirSync(place.path('folder'));
    for (const [name, content] of Object.entries(mistake.files ?? {})) place.write(name, content);
    const env = Object.fromEntries(
      Object.entries({ PROMPTMILL_API_KEY: 'good-key', ...mistake.env }).map(([name, value]) => [
        name,
        placed(value),
      ]),
    );
    const { code, stdout, stderr } = await place.call(mistake.typed?.map(placed) ?? checked, env);
    expect(stdout, mistake.name).toBe('');
    expect(stderr, mistake.name).not.toMatch(/^ +at /m);
    const said = stderr.replaceAll(`${place.folder}/`, '').replace(/\s+/g, ' ');
    const what = code === (mistake.exit ?? 2) && mistake.says.every((part) => isIn(said, part)) ? 1 : 0;
    const todo = isIn(said, mistake.advises) ? 1 : 0;
    return { number, mistake: mistake.name, what, todo, code, said };
  } finally {
    place.remove();
  }
}

it('fault 106: forty mistakes of beginners are named, with their place and what to do', async () => {
  const scores = [];
  for (const [i, mistake] of MISTAKES.entries()) scores.push(await scored(mistake, i + 1));
  const lost = scores.filter(({ what, todo }) => what + todo < 2);
  // `SHOW_MISTAKES=1` prints the table with every message, to be read by a person.
  if (process.env['SHOW_MISTAKES']) console.table(scores, ['mistake', 'what', 'todo', 'said']);
  expect(MISTAKES.length).toBeGreaterThanOrEqual(40);
  expect(lost).toEqual([]);
});
