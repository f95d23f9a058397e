import * as z from 'zod';
import type { StoredSummary } from '../account/summary.js';
import { cost, count, counted, duration, percent } from '../core/figures.js';
import { isObject, parseJson } from '../core/json.js';
import type { Json } from '../core/model.js';
import { escapeControls } from './terminal-text.js';

type Setting = readonly [name: string, value: string];
type Details = StoredSummary['details'];

/** What the records depend on, limits and budget. Settings that are not set are left out. */
export const settingsInWords = (
  { settings, limits }: Pick<Details, 'settings' | 'limits'>,
  currency: string | undefined,
): Setting[] =>
  [
    ...Object.entries(settings)
      .filter(([name]) => name !== 'prompt')
      .map(([name, value]): Setting => [NAMES[name] ?? name, textOf(name, value)]),
    ...limitsInWords(limits, currency),
  ]
    .filter(([, text]) => text !== '')
    .map(([name, text]) => [escapeControls(name), escapeControls(text)]);

/** Settings whose name in the job file is unclear. */
const NAMES: Readonly<Record<string, string>> = {
  'the way the input is read': 'input',
  row_parameters: 'parameters of single rows',
  '--emulate': 'emulator',
};

/** The manifest has settings as JSON; one that was cut, or was no JSON, stays as it is. */
function textOf(name: string, value: string): string {
  const { data } = json.safeParse(parseJson(value));
  if (data === undefined) return value;
  if (name === '--emulate') return data === true ? 'yes, it answered in place of the service' : '';
  if (Array.isArray(data)) {
    const [first = null, second = null, third = null] = data;
    if (name === 'the way the input is read') return inputText(first, second, third);
    if (name === 'output') return outputText(first, second, third);
  }
  return data === false ? '' : wordsOf(data);
}

function inputText(format: Json, encoding: Json, delimiter: Json): string {
  const said = [
    wordsOf(format),
    wordsOf(encoding),
    delimiter === null ? '' : `between cells ${JSON.stringify(delimiter)}`,
  ];
  return said.filter(Boolean).join(', ') || 'as its name and its first bytes say';
}

function outputText(format: Json, columns: Json, formulas: Json): string {
  const which = columns === null ? 'all columns' : `columns ${wordsOf(columns)}`;
  return `${wordsOf(format)}, ${which}, formulas: ${wordsOf(formulas)}`;
}

function limitsInWords(limits: Details['limits'], currency: string | undefined): Setting[] {
  const { budget, deadline_s: deadline } = limits;
  const some = (value: number | null): string => (value === null ? '' : count(value));
  const budgetTexts = [
    budget.cost === null ? '' : cost(budget.cost, currency),
    budget.tokens === null ? '' : counted(budget.tokens, 'token'),
  ];
  return [
    ['most calls at once', count(limits.concurrency)],
    ['requests a minute', some(limits.requests_per_minute)],
    ['tokens a minute', some(limits.tokens_per_minute)],
    ['prompts in a request', limits.prompts_per_request === 1 ? '' : count(limits.prompts_per_request)],
    ['time for a call', duration(limits.timeout_s)],
    ['calls for a row, at most', count(limits.attempts)],
    ['a call that is lost', limits.unknown_outcome === 'hold' ? 'is not made again' : 'is made again'],
    ['budget', budgetTexts.filter(Boolean).join(' and ') || 'none'],
    ['gives up without an answer for', duration(limits.give_up_s)],
    ['deadline', deadline === null ? '' : duration(deadline)],
    ['stops after', stopText(limits.stop_after)],
    ['canary', limits.canary === 0 ? '' : `the first ${counted(limits.canary, 'row')}`],
  ];
}

function stopText({ failures, abstained }: Details['limits']['stop_after']): string {
  const many = (most: number | null, what: string): string =>
    most === null ? '' : `${most < 1 ? percent(most, 1) : count(most)} ${what}`;
  return [many(failures, 'failed or invalid'), many(abstained, 'abstained')].filter(Boolean).join(', ');
}

/** No validation: it comes from `JSON.parse`. */
const json = z.custom<Json>((value) => value !== undefined);

function wordsOf(value: Json): string {
  if (value === null) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(wordsOf).filter(Boolean).join(', ');
  if (!isObject(value))
    return typeof value === 'string' && /[\n\t]/.test(value) ? JSON.stringify(value) : String(value);
  return Object.entries(value)
    .map(([name, inner]) => [inWords(name), wordsOf(inner), isObject(inner) || Array.isArray(inner)] as const)
    .filter(([, words]) => words !== '')
    .map(([name, words, isGroup]) => (isGroup ? `${name} (${words})` : `${name} ${words}`))
    .join(', ');
}

/** `abstainBelow` becomes `abstain below`; names of requests stay. */
const inWords = (name: string): string =>
  name.replace(/([a-z])([A-Z])/g, (_, before, letter) => `${before} ${letter.toLowerCase()}`);
