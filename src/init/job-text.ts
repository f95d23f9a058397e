import { stringify } from 'yaml';
import { answerReader } from '../answer/answer.js';
import type { Environment } from '../config/environment.js';
import { parseJob } from '../config/job-file.js';
import { settle } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { compileTemplate } from '../prompt/template.js';
import { loadTokenizer } from '../prompt/tokens.js';
import { plain, words } from '../render/terminal-text.js';
import { ASSUMED_MODEL } from '../service/catalogue.js';
import { shellWord } from '../shell-word.js';
import type { DataFile } from './data-file.js';

/** What a person has said of a job that is to be written. */
export interface JobWishes {
  readonly name: string;
  readonly data: DataFile;
  /** What is to be done with each row, or a whole template; empty where the rows bring their prompts. */
  readonly task: string;
  readonly answer: AnswerWish;
  readonly output: string;
  /** Path of the job file, for the commands in its comments. */
  readonly file: string;
  /** Path of the schema for editors, as seen from the job file; null where there is none to point at. */
  readonly schema: string | null;
}

/** Labels, a JSON Schema, or null for free text. */
export type AnswerWish =
  | { readonly labels: readonly string[] }
  | { readonly json: Readonly<Record<string, unknown>> }
  | null;

/**
 * The text of a job file, with comments, that `promptmill check` takes.
 * @throws UsageError for a wish that no job can have
 */
export function jobText(wishes: JobWishes, environment: Environment): string {
  const { data, file } = wishes;
  const text = textOf(wishes);
  const { prompt, answer } = settle(parseJob(text, file, environment), environment, {});
  if (prompt !== null) compileTemplate(prompt, data);
  answerReader(answer);
  return text;
}

/** Columns of a line of comment. */
const WIDTH = 100;
/** Columns that a comment names; an input may have thousands. */
const NAMED = 30;

function textOf(wishes: JobWishes): string {
  const { name, data, answer, output, file, schema } = wishes;
  const { prompt, about } = promptOf(wishes);
  const names = data.columns.slice(0, NAMED).join(', ');
  const more = data.columns.length > NAMED ? ` and ${data.columns.length - NAMED} more` : '';
  return [
    ...(schema === null ? [] : [`# yaml-language-server: $schema=${schema}`, '']),
    ...comment(`Made by promptmill init for ${data.path}.`),
    '#',
    ...commandLines(file),
    '#',
    '# Paths are relative to the folder in which the command runs.',
    '',
    field({ name }),
    '',
    'service:',
    `  deployment: ${ASSUMED_MODEL.id} # the name of your deployment, as in its address`,
    '  # style: openai # for vLLM, llama.cpp, Ollama and others with /v1/completions; deployment is the model',
    '',
    'input:',
    `  ${field({ path: data.path })}`,
    ...(about === null
      ? []
      : [`  require: ${inLine([about])} # a row without it is skipped: not sent, not paid for`]),
    '',
    ...comment(`Columns: ${names}${more}`),
    ...(prompt === null
      ? ['# Each row brings its own prompt.', '']
      : ['# {{ column }} is that column of the row.', stringify({ prompt }, { lineWidth: 0 })]),
    'parameters:',
    `  max_tokens: ${maxTokens(answer)} # an answer is cut off there`,
    '  temperature: 0 # the most likely answer, the same one each time',
    '',
    ...answerLines(answer),
    '',
    'output:',
    `  ${field({ path: output })} # every column of the input, then what was answered`,
    '',
    'limits:',
    '  concurrency: 20 # calls in flight at once',
    '  # requests_per_minute: 600 # the quota of the deployment; found out where it is not said',
    '  # budget: { tokens: 1000000 } # the run stops before it takes more, and can go on later',
    '',
    '# prices: { prompt: 0.0015, completion: 0.002 } # per 1,000 tokens, for the cost in the summary',
    '',
  ].join('\n');
}

/** What can be done with a job file: check it, rehearse it, run it. */
export function nextCommands(file: string): [check: string, rehearse: string, run: string] {
  const job = shellWord(plain(file));
  return [`promptmill check ${job}`, `promptmill run ${job} --emulate`, `promptmill run ${job}`];
}

function commandLines(file: string): string[] {
  const commands = nextCommands(file);
  const width = Math.max(...commands.map((command) => command.length));
  const what = [
    'what it would take; sends nothing',
    'a rehearsal, without a key and without a bill',
    'the service: needs PROMPTMILL_BASE_URL and PROMPTMILL_API_KEY',
  ];
  return commands.map((command, i) => `#   ${command.padEnd(width)}   ${what[i]}`);
}

/** The template, and the column that it cannot do without. */
function promptOf({ task, data, answer }: JobWishes): {
  readonly prompt: string | null;
  readonly about: string | null;
} {
  if (task === '') return { prompt: null, about: null };
  if (task.includes('{{')) return { prompt: task, about: aboutOf(task, data) };
  const { text } = data;
  if (text === null) {
    throw new UsageError(
      'no_column',
      `${data.path} has no column that a prompt can name`,
      'Rename the column with the text: letters, digits and spaces are safe.',
    );
  }
  // What stands before the text is part of the template: a name with braces would be read as a tag.
  const title = /^[\p{L}\p{N}_][\p{L}\p{N}\p{M}_ -]*$/u.test(text.column) ? text.column : 'Text';
  const lines = [task, ...formLines(answer), '', `${title}: ${text.tag}`, 'Answer:'];
  return { prompt: lines.join('\n'), about: text.column };
}

/** The column that a template of the user's own is about; null where it has several, or asks whether one is empty. */
function aboutOf(task: string, data: DataFile): string | null {
  if (/\{\{\s*[#^]/.test(task)) return null;
  const { names } = compileTemplate(task, data);
  const [only, ...others] = new Set(names);
  return others.length === 0 ? (only ?? null) : null;
}

/** What the prompt says of the form of an answer. */
function formLines(answer: AnswerWish): string[] {
  if (answer === null) return [];
  if ('labels' in answer)
    return [`Answer with one of these words and nothing else: ${answer.labels.join(', ')}`];
  const { properties } = answer.json;
  const keys = typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  const named = keys.length === 0 ? '' : ` Its keys: ${keys.join(', ')}.`;
  return [`Answer with one JSON object and nothing else.${named}`];
}

function answerLines(answer: AnswerWish): string[] {
  if (answer === null) return ['# No answer section: the answer is the text of the completion.'];
  if ('labels' in answer) {
    return [
      'answer:',
      `  labels: ${inLine(answer.labels)} # case, spaces and a full stop do not matter`,
      '  # gold: a column with the right answers, where they are known; the summary then has scores',
      '  # confidence: logprobs # a column says how sure the model is',
    ];
  }
  return [
    '# A JSON Schema: each top-level property is a column of the output. An answer that does not fit is counted as invalid.',
    stringify({ answer: { json: answer.json } }, { lineWidth: 0 }).trimEnd(),
  ];
}

/** Room for the longest label and the white space before it; for JSON and free text a beginning. */
function maxTokens(answer: AnswerWish): number {
  if (answer === null) return 200;
  if ('json' in answer) return 300;
  const { count } = loadTokenizer(ASSUMED_MODEL.encoding);
  return Math.max(...answer.labels.map((label) => count(` ${label}`))) + 4;
}

/** Text from a file's header in a comment: on lines of its own, and nothing in it ends one. */
const comment = (text: string): string[] => words(plain(text), WIDTH).map((line) => `# ${line}`);

/** A field whose value takes one line. */
const field = (value: object): string => stringify(value, { lineWidth: 0, blockQuote: false }).trimEnd();

const inLine = (values: readonly string[]): string =>
  stringify(values, {
    lineWidth: 0,
    blockQuote: false,
    collectionStyle: 'flow',
    flowCollectionPadding: false,
  }).trimEnd();
