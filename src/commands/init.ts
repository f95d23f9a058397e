import { lstatSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Command, Option } from 'commander';
import { readEnvironment } from '../config/environment.js';
import { defaultOutput } from '../config/settings.js';
import { either, errorCode, errorText, UsageError } from '../core/errors.js';
import { makeFolder } from '../core/folder.js';
import { isObject, parseJson } from '../core/json.js';
import { packageFile } from '../core/package-file.js';
import { outputFormatOf } from '../output/format.js';
import { compileTemplate } from '../prompt/template.js';
import { escapeControls, terminalText, words } from '../render/terminal-text.js';
import { OPERATION_NAMES, type OperationName } from '../service/operation.js';
import { INPUT_ENDINGS } from '../source/format.js';
import { type DataFile, jobText, type NewJobAnswer, nextCommands, readDataFile } from './job-text.js';
import { EXIT_OF_SIGNAL, type Exit } from './signals.js';

interface Options {
  readonly input?: string;
  readonly operation?: OperationName;
  readonly prompt?: string;
  readonly labels?: string;
  readonly jsonSchema?: string;
  readonly output?: string;
  readonly name?: string;
  readonly job?: string;
  readonly yes?: boolean;
  readonly force?: boolean;
  readonly sample?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill init --sample
      writes jobs/sentiment.yaml and samples/reviews.csv, to try a run with
  $ promptmill init reviews.csv
      asks what to do with each row, and writes jobs/reviews.yaml
  $ promptmill init reviews.csv --yes --labels positive,negative,neutral \\
      --prompt 'Classify the sentiment of the review.'
      asks nothing
  $ promptmill init messages.jsonl --json-schema facts.schema.json \\
      --prompt 'Extract the facts from: {{ message }}'

A prompt with {{ column }} is taken as it is. To one without, the column with
the longest texts is added, and the form of the answer. Nothing is sent, and a
file that is there already is left alone. Exit codes: 0 the job file is
written; 2 it is not; 130 interrupted.
`;

export function initCommand(exit: Exit): Command {
  return new Command('init')
    .description('write a job file for a data file, after five questions')
    .argument('[data]', `the data file: ${INPUT_ENDINGS.join(' ')}, each also .gz`)
    .option('--input <file>', 'the data file, in place of the argument')
    .addOption(
      new Option('--operation <name>', 'what the deployment does (default: completions)').choices(
        OPERATION_NAMES,
      ),
    )
    .option('--prompt <text>', 'what to do with each row; {{ column }} puts a column in')
    .option('--labels <a,b,…>', 'the answer is one of these')
    .option('--json-schema <file>', 'the answer is JSON of this JSON Schema')
    .option('--output <file>', 'where the job writes (default: out/<name>)')
    .option('--name <name>', 'name of the job (default: that of the data file)')
    .option('--job <file>', 'the job file to write (default: jobs/<name>.yaml)')
    .option('--yes', 'ask nothing: what is not given has its default')
    .option('--force', 'replace a job file that is there already')
    .option('--sample', 'write a sample job and its reviews in place of that; needs nothing else')
    .addHelpText('after', EXAMPLES)
    .action(async (data: string | undefined, options: Options) => {
      const { stdin: input, stderr: output } = process;
      const isTerminal = input.isTTY === true && output.isTTY === true;
      exit(await init(data, options, { input, output, isTerminal }));
    });
}

interface Place {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream & { readonly columns?: number };
  readonly isTerminal: boolean;
}

/**
 * Asks for what no option gives, and writes the job file.
 * @returns the exit code
 * @throws UsageError when nothing is written
 */
export async function init(data: string | undefined, options: Options, place: Place): Promise<number> {
  if (options.sample) {
    saveSample(options.force === true, place);
    return 0;
  }
  const given = onlyOne(data, options);
  const questions = place.isTerminal && options.yes !== true ? new Questions(place) : null;
  try {
    await write(given, options, questions, place);
    return 0;
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    place.output.write('\nnothing was written\n');
    return EXIT_OF_SIGNAL.SIGINT;
  } finally {
    questions?.close();
  }
}

const SAMPLE = ['jobs/sentiment.yaml', 'samples/reviews.csv'] as const;

/** @throws UsageError as `save` */
function saveSample(isForced: boolean, { output }: Place): void {
  for (const path of SAMPLE) {
    const text = readFileSync(packageFile(path), 'utf8');
    const schema = schemaPath(path);
    const own =
      schema === null
        ? text.replace(/^# yaml-language-server.*\n\n/, '')
        : text.replace('../docs/job.schema.json', schema);
    save(path, own, isForced);
  }
  output.write(
    terminalText(
      `${SAMPLE.join(' and ')} are written. What comes next:\n\n  promptmill run ${SAMPLE[0]} --emulate\n`,
    ),
  );
}

/** @param questions null when nobody can be asked: missing options then take their defaults, or are errors */
async function write(
  given: string | undefined,
  options: Options,
  questions: Questions | null,
  { output }: Place,
): Promise<void> {
  const environment = readEnvironment(process.env);
  const data =
    (await (given === undefined
      ? questions?.ask(['1/5  Which data file?'], readDataFile)
      : readDataFile(given))) ?? lacking('the data file', 'it as the argument');
  const name = options.name ?? nameOf(data.path);
  const file = options.job ?? join('jobs', `${name}.yaml`);
  if (options.force !== true) assertFree(file);
  const operation =
    options.operation ?? (await questions?.ask(OPERATION_QUESTION, operationIn)) ?? 'completions';
  const task =
    options.prompt?.trim() ??
    (await questions?.ask(taskQuestion(data), (line) => taskIn(line, data))) ??
    (data.hasPrompts ? '' : lacking('what to do with each row', '--prompt TEXT'));
  const answer = answerOf(options) ?? (await questions?.ask(ANSWER_QUESTION, answerIn)) ?? null;
  const usual = defaultOutput(name, undefined, data.path);
  const outputQuestion = ['', `5/5  Where are the answers written? Nothing: ${usual}`];
  const path =
    options.output ?? (await questions?.ask(outputQuestion, (line) => outputIn(line || usual))) ?? usual;
  const schema = schemaPath(file);
  const text = jobText({ name, operation, data, task, answer, output: path, file, schema }, environment);
  save(file, text, options.force === true);
  const [check, rehearse] = nextCommands(file);
  output.write(terminalText(`\n${file} is written. What comes next:\n\n  ${check}\n  ${rehearse}\n`));
}

function onlyOne(data: string | undefined, { input, labels, jsonSchema }: Options): string | undefined {
  if (labels !== undefined && jsonSchema !== undefined)
    throw new UsageError(
      'two_answers',
      '--labels and --json-schema cannot stand together',
      'Take one of them out.',
    );
  if (data === undefined || input === undefined || data === input) return data ?? input;
  throw new UsageError(
    'two_inputs',
    `the data file is ${data}, and --input says ${input}`,
    'Take one of them out.',
  );
}

const OPERATION_QUESTION = [
  '',
  '2/5  What does the deployment do? completions: it continues a text. chat: it answers messages, as most models of today do. Nothing: completions',
];

function operationIn(line: string): OperationName {
  const name = OPERATION_NAMES.find((known) => known === (line.toLowerCase() || 'completions'));
  if (name !== undefined) return name;
  throw new UsageError('unknown_operation', `Say ${either(OPERATION_NAMES)}, got ${line}`);
}

function taskQuestion({ columns, text, hasPrompts }: DataFile): string[] {
  const added = text === null ? '' : ` Without one, ${text.tag} is added: it has the longest texts.`;
  const own = hasPrompts ? ' Nothing: each row brings its own prompt.' : '';
  return [
    `     Columns: ${columns.slice(0, 20).join(', ')}${columns.length > 20 ? ', …' : ''}`,
    '',
    `3/5  What is to be done with each row? {{ column }} puts a column in.${added}${own}`,
  ];
}

function taskIn(line: string, data: DataFile): string {
  if (line === '' && !data.hasPrompts)
    throw new UsageError('no_task', 'Say what to do, such as: Classify the sentiment of the review.');
  compileTemplate(line, data);
  return line;
}

const ANSWER_QUESTION = [
  '',
  '4/5  What are the answers? Labels with commas between them, a file.json with a JSON Schema, or nothing for free text.',
];

function answerIn(line: string): NewJobAnswer {
  if (line === '') return null;
  return line.toLowerCase().endsWith('.json') ? { json: readSchema(line) } : { labels: labelsOf(line) };
}

function answerOf({ labels, jsonSchema }: Options): NewJobAnswer {
  if (labels !== undefined) return { labels: labelsOf(labels) };
  return jsonSchema === undefined ? null : { json: readSchema(jsonSchema) };
}

function outputIn(path: string): string {
  outputFormatOf(path);
  return path;
}

function lacking(what: string, how: string): never {
  throw new UsageError(
    'init_needs_more',
    `nothing says ${what}, and there is no terminal to ask on, or --yes forbids it`,
    `Give ${how}: promptmill init DATA --prompt TEXT [--labels a,b | --json-schema FILE] [--output FILE]`,
  );
}

function labelsOf(text: string): string[] {
  const labels = text.split(',').map((label) => label.trim());
  if (labels.length > 1 && labels.every((label) => label !== '')) return labels;
  throw new UsageError(
    'bad_labels',
    `labels must be two or more with commas between them, got ${JSON.stringify(text)}`,
    'For example: positive,negative,neutral',
  );
}

function readSchema(path: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError('schema_unreadable', `cannot read the JSON Schema ${path}: ${errorText(error)}`);
  }
  const schema = parseJson(text);
  if (isObject(schema)) return { ...schema };
  throw new UsageError('schema_not_json', `${path} is no JSON Schema: it must be one JSON object`);
}

function nameOf(path: string): string {
  const name = basename(path)
    .replace(/\.gz$/i, '')
    .replace(/\.[^.]*$/, '')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[-.]+|-+$/g, '');
  return name === '' ? 'job' : name;
}

/** Path of the schema for editors; null when this package is outside the working folder. */
function schemaPath(file: string): string | null {
  const schema = fileURLToPath(packageFile('docs/job.schema.json'));
  if (relative('.', schema).startsWith('..')) return null;
  const path = relative(dirname(resolve(file)), schema);
  return /\s/.test(path) ? null : path;
}

function assertFree(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) throw taken(file);
}

const taken = (file: string): UsageError =>
  new UsageError(
    'job_taken',
    `${file} is there already, and was left as it is`,
    'Name another file with --job, or replace it with --force.',
  );

function save(file: string, text: string, replace: boolean): void {
  try {
    makeFolder(dirname(file));
    writeFileSync(file, text, { flag: replace ? 'w' : 'wx' });
  } catch (error) {
    if (errorCode(error) === 'EEXIST') throw taken(file);
    throw new UsageError('job_not_written', `cannot write ${file}: ${errorText(error)}`);
  }
}

/** The user left: Ctrl-C, or the end of the input. */
class Interrupted extends Error {}

/** As wide as the number of a question. */
const INDENT = '     ';

class Questions {
  readonly #reader;
  readonly #lines;

  constructor(private readonly place: Place) {
    const { input, output } = place;
    this.#reader = createInterface({ input, output, terminal: true, prompt: `${INDENT}> ` });
    this.#reader.on('SIGINT', () => this.close());
    // Lines pasted together wait here until they are read.
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  /** Repeats until the line is an answer. */
  async ask<T>(question: readonly string[], read: (line: string) => T | Promise<T>): Promise<T> {
    for (const line of question) this.#tell(line);
    for (;;) {
      this.#reader.prompt();
      const { value, done } = await this.#lines.next();
      if (done) throw new Interrupted();
      try {
        return await read(value.trim());
      } catch (error) {
        if (!(error instanceof UsageError)) throw error;
        this.#tell(`${INDENT}${[error.message, error.hint].filter(Boolean).join(' ')}`);
      }
    }
  }

  #tell(text: string): void {
    const { output } = this.place;
    const width = Math.max(20, Math.min(output.columns ?? 80, 100) - INDENT.length);
    const lines = words(escapeControls(text.slice(INDENT.length)), width);
    output.write(`${text.slice(0, INDENT.length)}${lines.join(`\n${INDENT}`)}\n`);
  }

  close(): void {
    this.#reader.close();
  }
}
