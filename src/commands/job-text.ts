import { stringify } from 'yaml';
import { answerReader } from '../answer/answer.js';
import type { Environment } from '../config/environment.js';
import { parseJob } from '../config/job-file.js';
import { settle } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { valueText } from '../core/json.js';
import { shellWord } from '../core/started.js';
import { knownFormatOf } from '../output/format.js';
import { compileTemplate, type TemplateInput } from '../prompt/template.js';
import { loadTokenizer } from '../prompt/tokens.js';
import { escapeControls, words } from '../render/terminal-text.js';
import { assumedModel } from '../service/catalogue.js';
import { type Operation, type OperationName, operationOf } from '../service/operation.js';
import { firstRows } from '../source/source.js';

/** What the first rows of a data file show. `name` also says which rows were read, for messages. */
export interface DataFile extends TemplateInput {
  readonly path: string;
  /** The column that the prompt is probably about, and the tag for it; null when no column can be named. */
  readonly text: { readonly column: string; readonly tag: string } | null;
  readonly hasPrompts: boolean;
}

const ROWS = 200;

/** @throws UsageError for a file that a run could not read either */
export async function readDataFile(path: string): Promise<DataFile> {
  const { format, columns, rows } = await firstRows({ path }, ROWS);
  const lengths = new Map(columns.map((column) => [column, 0]));
  for (const { fields } of rows)
    for (const [column, value] of fields)
      lengths.set(column, (lengths.get(column) ?? 0) + valueText(value).length);
  const longestFirst = columns.toSorted((a, b) => (lengths.get(b) ?? 0) - (lengths.get(a) ?? 0));
  // Unless all columns come first in the file, later rows may have more.
  const isPart = !format.hasHeader && rows.length === ROWS;
  const input = { name: isPart ? `${path}, in its first ${ROWS} rows,` : path, columns, format };
  return {
    ...input,
    path,
    text: firstNamed(longestFirst, input),
    hasPrompts: columns.includes('prompt') || columns.includes('body'),
  };
}

/** Braces in a name, for example, keep a template from naming a column. */
function firstNamed(names: readonly string[], input: TemplateInput): DataFile['text'] {
  for (const column of names) {
    for (const tag of [`{{ ${column} }}`, `{{& ${column} }}`]) {
      try {
        const template = compileTemplate(tag, input);
        if (template.names.length === 1 && template.names[0] === column) return { column, tag };
      } catch {
        // Try the next tag.
      }
    }
  }
  return null;
}

export interface NewJob {
  readonly name: string;
  readonly operation: OperationName;
  readonly data: DataFile;
  /** The task for each row, or a whole template; empty when the rows have their own prompts. */
  readonly task: string;
  readonly answer: NewJobAnswer;
  readonly output: string;
  /** Path of the job file, for the commands in its comments. */
  readonly file: string;
  /** Path of the schema for editors, relative to the job file; null when there is none. */
  readonly schema: string | null;
}

export type NewJobAnswer =
  | { readonly labels: readonly string[] }
  | { readonly json: Readonly<Record<string, unknown>> }
  | null;

/**
 * A job file that `promptmill check` accepts.
 * @throws UsageError when no job can be made from these answers
 */
export function jobText(job: NewJob, environment: Environment): string {
  const { data, file } = job;
  const text = textOf(job);
  const { prompt, answer } = settle(parseJob(text, file, environment), environment, {});
  if (prompt !== null) compileTemplate(prompt, data);
  answerReader(answer);
  return text;
}

const WIDTH = 100;
/** Columns of the input named in a comment; an input may have thousands. */
const NAMED = 30;

function textOf(job: NewJob): string {
  const { name, operation, data, answer, output, file, schema } = job;
  const called = operationOf({ operation });
  const { prompt, about } = promptOf(job);
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
    `  operation: ${operation}`,
    `  deployment: ${assumedModel(called).id} # the name of your deployment, as in its address`,
    `  # style: openai # for vLLM, llama.cpp, Ollama and others with /v1/${called.path}; deployment is the model`,
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
    `  max_tokens: ${maxTokens(answer, called)} # an answer is cut off there`,
    '  temperature: 0 # the most likely answer, the same one each time',
    '',
    ...answerLines(answer),
    '',
    'output:',
    `  ${field({ path: output })}`,
    ...columnLines(job),
    '',
    'limits:',
    '  concurrency: auto # calls in flight at once; a number is the most',
    '  # requests_per_minute: 600 # the quota of the deployment; found out where it is not said',
    '  # budget: { tokens: 1000000 } # the run stops before it takes more, and can go on later',
    '',
    '# prices: { prompt: 0.0015, completion: 0.002 } # per 1,000 tokens, for the cost in the summary',
    '',
  ].join('\n');
}

export function nextCommands(file: string): [check: string, rehearse: string, run: string] {
  const job = shellWord(escapeControls(file));
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

function promptOf({ task, data, answer }: NewJob): {
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
  // The caption becomes part of the template: a name with braces would be read as a tag.
  const title = /^[\p{L}\p{N}_][\p{L}\p{N}\p{M}_ -]*$/u.test(text.column) ? text.column : 'Text';
  const lines = [task, ...formLines(answer), '', `${title}: ${text.tag}`, 'Answer:'];
  return { prompt: lines.join('\n'), about: text.column };
}

/** The column that the user's own template is about; null when it uses several, or a section. */
function aboutOf(task: string, data: DataFile): string | null {
  if (/\{\{\s*[#^]/.test(task)) return null;
  const { names } = compileTemplate(task, data);
  const [only, ...others] = new Set(names);
  return others.length === 0 ? (only ?? null) : null;
}

function formLines(answer: NewJobAnswer): string[] {
  if (answer === null) return [];
  if ('labels' in answer)
    return [`Answer with one of these words and nothing else: ${answer.labels.join(', ')}`];
  const { properties } = answer.json;
  const keys = typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  const named = keys.length === 0 ? '' : ` Its keys: ${keys.join(', ')}.`;
  return [`Answer with one JSON object and nothing else.${named}`];
}

function answerLines(answer: NewJobAnswer): string[] {
  if (answer === null) return ['# No answer section: the answer is the text of the completion.'];
  if ('labels' in answer) {
    return [
      'answer:',
      `  labels: ${inLine(answer.labels)} # case, spaces and a full stop do not matter`,
      '  # gold: column_with_the_right_answers # or { column: Rating, map: { ANSWER: [4, 5] } }; the summary then has scores',
      '  # confidence: logprobs # a column says how sure the model is',
    ];
  }
  return [
    '# A JSON Schema: each top-level property is a column of the output. An answer that does not fit is counted as invalid.',
    stringify({ answer: { json: answer.json } }, { lineWidth: 0 }).trimEnd(),
  ];
}

/** What a person wants to see in a spreadsheet. JSONL keeps everything. */
function columnLines({ answer, output }: NewJob): string[] {
  if (knownFormatOf(output)?.hasHeader !== true) return [];
  // Without it, which answers of JSON are invalid is not known.
  const code = answer !== null && 'json' in answer ? ['error_code'] : [];
  const evidence = ['answer', 'evidence', 'status', 'prompt_filtered', 'completion_filtered'];
  return [
    `  columns: ${inLine(['input', ...evidence, ...code, 'error_message'])}`,
    '  # Without this line the output also has the text, tokens, the content filter by category, model and times of each call.',
  ];
}

/** Enough for the longest label and the white space before it; a starting value for JSON and free text. */
function maxTokens(answer: NewJobAnswer, { encoding }: Operation): number {
  if (answer === null) return 200;
  if ('json' in answer) return 300;
  const { count } = loadTokenizer(encoding);
  return Math.max(...answer.labels.map((label) => count(` ${label}`))) + 4;
}

/** Comment lines for text from a file's header: nothing in it can end the comment. */
const comment = (text: string): string[] => words(escapeControls(text), WIDTH).map((line) => `# ${line}`);

const field = (value: object): string => stringify(value, { lineWidth: 0, blockQuote: false }).trimEnd();

const inLine = (values: readonly string[]): string =>
  stringify(values, {
    lineWidth: 0,
    blockQuote: false,
    collectionStyle: 'flow',
    flowCollectionPadding: false,
  }).trimEnd();
