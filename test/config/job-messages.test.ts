import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readJobFile } from '../../src/config/job-file.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-messages-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The two lines that every job has; what the table gives comes behind them. */
const HEAD = 'service: { deployment: d }\ninput: { path: a.csv }\n';

const TOP =
  'name, service, input, prompt, system, messages, parameters, row_parameters, answer, output, limits, prices, schedule, drift, report, on_finish';
const QUOTES = 'put a text with {{ }} in quotes, or behind | on lines of its own';

const DIFFER = 'give names that differ in more than case, white space, "_" and "-"';

/** Wrong lines of a job file, and every word that is said of them. */
const WRONG: readonly (readonly [lines: string, message: string])[] = [
  // A field in the wrong place.
  ['max_tokens: 5', 'job.yaml:3: unknown field max_tokens: write it as parameters.max_tokens'],
  ['concurrency: 5', 'job.yaml:3: unknown field concurrency: write it as limits.concurrency'],
  [
    'deployment: x',
    'job.yaml:3: unknown field deployment: write it as service.deployment or answer.on_invalid.deployment',
  ],
  ['path: x.csv', 'job.yaml:3: unknown field path: write it as input.path or output.path'],
  ['limits:\n  labels: [a, b]', 'job.yaml:4: unknown field limits.labels: write it as answer.labels'],
  ['api_key: k', 'job.yaml:3: unknown field api_key: set PROMPTMILL_API_KEY in the environment or in .env'],
  // A field that does not exist.
  ['max_token: 5', 'job.yaml:3: unknown field max_token: did you mean parameters.max_tokens?'],
  [
    'limits:\n  concurency: 5',
    'job.yaml:4: unknown field limits.concurency: did you mean limits.concurrency?',
  ],
  ['answer: { label: [a, b] }', 'job.yaml:3: unknown field answer.label: did you mean answer.labels?'],
  ['wibble: 3', `job.yaml:3: unknown field wibble: known here are ${TOP}`],
  [
    'parameters: { stream: true }',
    'job.yaml:3: parameters.stream cannot be set: each row is one answer, which is read whole',
  ],
  // A value of the wrong kind.
  [
    'output: out.csv',
    'job.yaml:3: output must be a group of fields, got "out.csv"; its fields are path, format, columns, formulas, probabilities',
  ],
  ['answer: positive', 'job.yaml:3: answer must be a group with labels, number or json, got "positive"'],
  [
    'answer: { labels: [a, b], require: { accuracy: 0.9 } }',
    'job.yaml:3: answer.require.accuracy needs answer.gold, the column with the right answers, got 0.9',
  ],
  [
    'answer: { json: { type: object }, gold: truth, require: { f1: 0.9 } }',
    'job.yaml:3: answer.require.f1 needs labels or a number: JSON has no F1, got 0.9',
  ],
  [
    'answer: { labels: [a, b], gold: { column: rating, map: { a: [4, 5], c: 1 } } }',
    'job.yaml:3: answer.gold.map.c is no label; did you mean "a"?',
  ],
  [
    'answer: { labels: [a, b], gold: { column: rating, map: { a: [4, 5], b: "4.0" } } }',
    'job.yaml:3: answer.gold.map.b has a value that "a" has, too, got "4.0"',
  ],
  [
    'answer: { labels: [a, b], gold: { column: rating, map: { a: null } } }',
    'job.yaml:3: answer.gold.map.a is empty: give it a value, or remove the line',
  ],
  [
    'answer: { labels: [a, b], gold: { map: { a: 1 } } }',
    'job.yaml:3: answer.gold must be the name of a column, a group with column and map, or one with columns, got {"map":{"a":1}}',
  ],
  [
    'answer: { labels: [a, b], gold: { columns: { a: x } } }',
    'job.yaml:3: answer.gold.columns needs answer.json, whose properties it names',
  ],
  [
    'answer: { json: { type: object, properties: { a: {} } }, gold: { columns: { b: x } } }',
    'job.yaml:3: answer.gold.columns.b is no property of answer.json',
  ],
  [
    'answer: { json: { type: object, properties: { a: { type: integer } } }, gold: { columns: { a: { column: x, map: { good: 1 } } } } }',
    'job.yaml:3: answer.gold.columns.a.map.good is no a',
  ],
  [
    'answer: { json: { type: object }, gold: { column: rating, map: { a: 1 } } }',
    'job.yaml:3: answer.gold.map needs labels or a number: JSON is compared as it is',
  ],
  ['answer: {}', 'job.yaml:3: answer must be a group with labels, number or json, got {}'],
  ['answer: { labels: [a, b], json: {} }', 'job.yaml:3: answer has json and labels: remove one of them'],
  [
    'answer: { labels: [a, b], json: {}, require: { valid: 1 } }',
    'job.yaml:3: answer has json and labels: remove one of them',
  ],
  [
    'answer: { labels: [a, b], require: { valid: 98 } }',
    'job.yaml:3: answer.require.valid must be a number from 0 to 1, got 98: write 0.98 for 98 %',
  ],
  [
    'answer: { labels: [a, b], require: { valdi: 1 } }',
    'job.yaml:3: unknown field answer.require.valdi: did you mean answer.require.valid?',
  ],
  // What to do with answers that do not fit.
  [
    'answer: { labels: [a, b], on_invalid: {} }',
    'job.yaml:3: answer.on_invalid needs repair, ask_again or deployment',
  ],
  [
    'answer: { labels: [a, b], on_invalid: }',
    'job.yaml:3: answer.on_invalid is empty: give it a value, or remove the line',
  ],
  [
    'answer: { on_invalid: { ask_again: 2 } }',
    'job.yaml:3: answer must be a group with labels, number or json, got {"on_invalid":{"ask_again":2}}',
  ],
  [
    'answer:\n  labels: [a, b]\n  on_invalid:\n    ask_again: 2\n    repair: true',
    'job.yaml:7: answer.on_invalid.repair needs answer.json: only JSON can be mended, got true',
  ],
  [
    'answer: { json: {}, on_invalid: { ask_again: 11 } }',
    'job.yaml:3: answer.on_invalid.ask_again must be a whole number from 0 to 10, got 11',
  ],
  [
    'answer: { json: {}, on_invalid: { ask_agan: 1 } }',
    'job.yaml:3: unknown field answer.on_invalid.ask_agan: did you mean answer.on_invalid.ask_again?',
  ],
  [
    'answer:\n  json: {}\n  on_invalid:\n    repair: true\n    prompt: "{{ prompt }}"',
    'job.yaml:7: answer.on_invalid.prompt needs ask_again, of at least 1',
  ],
  [
    'answer: { json: {}, on_invalid: { deployment: e, ask_again: 0, prompt: "{{ prompt }}" } }',
    'job.yaml:3: answer.on_invalid.prompt needs ask_again, of at least 1',
  ],
  [
    'answer:\n  json: {}\n  on_invalid:\n    ask_again: 1\n    prompt: |\n      {{ prompt }}\n      {{ anser }}',
    'job.yaml:7: answer.on_invalid.prompt cannot be used: the template uses {{ anser }}, but a prompt that asks again has no such name; did you mean {{ answer }}? Names: prompt, answer, problem.',
  ],
  [
    'answer: { json: {}, on_invalid: { ask_again: 1, prompt: "{{ prompt }} {{ review }}" } }',
    'job.yaml:3: answer.on_invalid.prompt cannot be used: the template uses {{ review }}, but a prompt that asks again has no such name. Names: prompt, answer, problem.',
  ],
  [
    'answer: { json: {}, on_invalid: { ask_again: 1, prompt: "{{ prompt" } }',
    'job.yaml:3: answer.on_invalid.prompt cannot be used: the template, line 1: Unclosed tag. End it with }}.',
  ],
  [
    'answer: { json: {}, on_invalid: { ask_again: 1, prompt: "Only JSON: {{ problem }}" } }',
    'job.yaml:3: answer.on_invalid.prompt has neither {{ prompt }} nor {{ answer }}: the model would see nothing of the row',
  ],
  [
    'answer: { json: {}, on_invalid: { deployment: d } }',
    'job.yaml:3: answer.on_invalid.deployment must be another than service.deployment; ask_again asks that one, got "d"',
  ],
  [
    'answer: { json: {}, on_invalid: { deployment: e } }\nprices: { prompt: 1, completion: 1 }\nlimits: { budget: { cost: 5 } }',
    'job.yaml:5: limits.budget.cost cannot be kept with answer.on_invalid.deployment, which has a price of its own: use limits.budget.tokens, got 5',
  ],
  [
    'answer: { labels: [a, 2] }',
    'job.yaml:3: entry 2 of answer.labels must be a text, got 2: write "2", in quotes',
  ],
  [
    'answer: { labels: good }',
    'job.yaml:3: answer.labels must be a list of labels, or a group with the synonyms of each, got "good"',
  ],
  [
    'answer: { labels: { good: fine, bad: [] } }',
    'job.yaml:3: answer.labels.good must be a list, got "fine": write [fine]',
  ],
  [
    'answer: { labels: { good: [fine, 2], bad: [] } }',
    'job.yaml:3: entry 2 of answer.labels.good must be a text, got 2: write "2", in quotes',
  ],
  ['answer: { labels: [a, b], multiple: 1 }', 'job.yaml:3: answer.multiple must be true or false, got 1'],
  ['answer: { json: {}, multiple: true }', 'job.yaml:3: answer has multiple and json: remove one of them'],
  [
    'answer: { number: true }',
    'job.yaml:3: answer.number must be a group of fields, got true; its fields are min, max, integer',
  ],
  [
    'answer: { number: { min: 1, max: "5" } }',
    'job.yaml:3: answer.number.max must be a number, got "5": write 5, without quotes',
  ],
  [
    'answer:\n  number:\n    min: 5\n    max: 1',
    'job.yaml:6: answer.number.max must be at least answer.number.min, 5, got 1',
  ],
  [
    'answer: { number: { minimum: 1 } }',
    'job.yaml:3: unknown field answer.number.minimum: known here are min, max, integer',
  ],
  ['answer: { json: x }', 'job.yaml:3: answer.json must be a group of fields, got "x"'],
  ['row_parameters: best_of', 'job.yaml:3: row_parameters must be a list, got "best_of": write [best_of]'],
  ['limits: { deadline: 8 }', 'job.yaml:3: limits.deadline must be a duration such as 90s, 30m or 8h, got 8'],
  [
    'limits: { attempts: "5" }',
    'job.yaml:3: limits.attempts must be a whole number from 1 to 100, got "5": write 5, without quotes',
  ],
  [
    'limits: { concurrency: many }',
    'job.yaml:3: limits.concurrency must be auto, or a whole number from 1 to 10000, got "many"',
  ],
  ['limits:', 'job.yaml:3: limits is empty: give it a value, or remove the line'],
  // A value out of range.
  [
    'limits: { concurrency: 0 }',
    'job.yaml:3: limits.concurrency must be a whole number from 1 to 10000, got 0',
  ],
  ['limits: { attempts: 2.5 }', 'job.yaml:3: limits.attempts must be a whole number from 1 to 100, got 2.5'],
  [
    'limits: { timeout_seconds: -1 }',
    'job.yaml:3: limits.timeout_seconds must be a number above 0, at most 86400, got -1',
  ],
  ['parameters: { temperature: 3 }', 'job.yaml:3: parameters.temperature must be between 0 and 2, got 3'],
  [
    'parameters: { temperature: .nan }',
    'job.yaml:3: parameters.temperature must be between 0 and 2, got NaN',
  ],
  [
    'parameters: { logit_bias: { abc: 1 } }',
    'job.yaml:3: parameters.logit_bias.abc must have the number of a token as its name',
  ],
  ['answer: { labels: [one] }', 'job.yaml:3: answer.labels must name at least two labels, got ["one"]'],
  [
    `answer: { labels: [${'x'.repeat(501)}, b] }`,
    `job.yaml:3: entry 1 of answer.labels must have at most 500 characters, got "${'x'.repeat(56)}...`,
  ],
  ['answer: { labels: { one: [two] } }', 'job.yaml:3: answer.labels must name at least two labels'],
  [
    `answer: { labels: { ${'x'.repeat(501)}: [], b: [] } }`,
    `job.yaml:3: answer.labels.${'x'.repeat(501)} must have at most 500 characters, got "${'x'.repeat(56)}...`,
  ],
  // Labels that cannot be told apart.
  [
    'answer:\n  labels:\n    - positive\n    - negative\n    - Positive',
    `job.yaml:7: entry 3 of answer.labels is the same as the label "positive": ${DIFFER}, got "Positive"`,
  ],
  [
    'answer:\n  labels:\n    good: [fine]\n    bad: [poor, FINE]',
    `job.yaml:6: entry 2 of answer.labels.bad is the same as the synonym "fine" of "good": ${DIFFER}, got "FINE"`,
  ],
  [
    'answer:\n  labels:\n    good: [Self Harm]\n    self_harm: []',
    `job.yaml:6: answer.labels.self_harm is the same as the synonym "Self Harm" of "good": ${DIFFER}, got "self_harm"`,
  ],
  [
    'answer:\n  labels:\n    1:\n      - one\n    2:\n      - two\n      - One\n',
    `job.yaml:9: entry 2 of answer.labels.2 is the same as the synonym "one" of "1": ${DIFFER}, got "One"`,
  ],
  [
    'answer:\n  labels:\n    1: [one]\n    One:\n      - two\n',
    `job.yaml:6: answer.labels.One is the same as the synonym "one" of "1": ${DIFFER}, got "One"`,
  ],
  ['answer: { labels: [a, " "] }', 'job.yaml:3: entry 2 of answer.labels must not be empty, got " "'],
  [
    'answer: { labels: [a, b, "c;d"], multiple: true }',
    'job.yaml:3: entry 3 of answer.labels has a ";", which stands between the labels of a row: take it out of the name, ' +
      'got "c;d"',
  ],
  ['output: { columns: [] }', 'job.yaml:3: output.columns must be a list of at least 1, got []'],
  ['output: { formulas: of }', 'job.yaml:3: output.formulas must be protect or raw, got "of"'],
  [
    'output: { formulas: protected }',
    'job.yaml:3: output.formulas must be protect or raw, got "protected"; did you mean protect?',
  ],
  ['name: a b', 'job.yaml:3: name may hold letters, digits, ".", "_" and "-", got "a b"'],
  // A value that is missing.
  [
    'schedule: { timezone: UTC }',
    'job.yaml:3: schedule.cron is missing: add a line such as cron: "0 2 * * *"',
  ],
  ['prices: { prompt: 1 }', 'job.yaml:3: prices.completion is missing: add a line such as completion: 0.002'],
  ['on_finish: {}', 'job.yaml:3: on_finish needs a command or a post'],
  [
    'answer: { labels: { a: [], __proto__: [b], c: [] } }',
    'job.yaml:3: a field cannot be called __proto__: choose another name: answer: { labels: { a: [], __proto__: [b], c: [] } }',
  ],
  [
    'answer:\n  json:\n    type: object\n    properties:\n      "__proto__": { type: string }',
    'job.yaml:7: a field cannot be called __proto__: choose another name: "__proto__": { type: string }',
  ],
  // Rows without an answer.
  ['limits: { stop_after_failures: 0 }', 'job.yaml:3: limits.stop_after_failures must be above 0, got 0'],
  [
    'limits: { stop_after_failures: many }',
    'job.yaml:3: limits.stop_after_failures must be a number above 0, or a group with failures and abstained, got "many"',
  ],
  [
    'limits: { stop_after_failures: { abstaned: 0.5 } }',
    'job.yaml:3: unknown field limits.stop_after_failures.abstaned: did you mean limits.stop_after_failures.abstained?',
  ],
  [
    'answer: { labels: [a, b] }\nlimits: { stop_after_failures: { abstained: 0.5 } }',
    'job.yaml:4: limits.stop_after_failures.abstained needs answer.abstain_below, got 0.5',
  ],
  // What YAML makes of it.
  ['prompt: {{ review }}', `job.yaml:3: ${QUOTES}: prompt: {{ review }}`],
  [
    'prompt: {{ review }} is it good?',
    `job.yaml:3: not valid YAML: ${QUOTES}: prompt: {{ review }} is it good?`,
  ],
  [
    'output: { path: out/{{date}}.csv }',
    `job.yaml:3: not valid YAML: ${QUOTES}: output: { path: out/{{date}}.csv }`,
  ],
  [
    'prompt: Classify: it',
    'job.yaml:3: not valid YAML: put a text with ": " in it in quotes, or behind | on lines of its own: prompt: Classify: it',
  ],
  ['prompt: @x', 'job.yaml:3: not valid YAML: put a text that begins with @ in quotes: prompt: @x'],
  ['limits:\n\tattempts: 3', 'job.yaml:4: not valid YAML: a tab begins the line: YAML takes spaces only'],
  [
    'input: { path: b.csv }',
    'job.yaml:3: not valid YAML: the field input stands here a second time: take one away',
  ],
  [
    'answer:\n  labels:\n    very good: []\n    1: []\n    very good: []',
    'job.yaml:7: not valid YAML: the field very good stands here a second time: take one away',
  ],
  [
    'prompt: "x',
    'job.yaml:4: not valid YAML: a quote or a bracket before this line is never closed: put its other one where it ends',
  ],
];

describe('a wrong job file', () => {
  const path = join(folder, 'job.yaml');
  const said = (text: string): string => {
    writeFileSync(path, text);
    try {
      readJobFile(path);
    } catch (error) {
      return error instanceof Error ? error.message.replaceAll(`${folder}/`, '') : String(error);
    }
    return 'nothing';
  };

  test.each(WRONG)('%j is told in a sentence', (lines, message) => {
    expect(said(`${HEAD}${lines}\n`)).toBe(message);
  });

  test.each([[''], ['service: {}\ninput: {}\n']])('%j lacks what every job has', (text) => {
    const [service, input] = said(text).split('\n');
    expect(service).toMatch(/^job\.yaml:1: service(\.deployment)? is missing: add a line such as \S.*lm-35/);
    expect(input).toMatch(/^job\.yaml:[12]: input(\.path)? is missing: add a line such as \S.*reviews\.csv/);
  });

  test('is told as one that is a text, and one that is a list', () => {
    expect(said('just text')).toBe(
      `job.yaml:1: the job file must be a group of fields, got "just text"; its fields are ${TOP}`,
    );
    expect(said('- a\n')).toMatch(/^job\.yaml:1: the job file must be a group of fields, got \["a"\];/);
  });
});
