import { STATUS_CODES } from 'node:http';
import { isObject, parseJson } from '../core/json.js';
import type {
  Choice,
  Completion,
  FilterResults,
  Filters,
  FilterVerdict,
  Json,
  Problem,
  Usage,
} from '../core/model.js';
import type { Operation } from './operation.js';

/** Reads response bodies. Servers differ in what they leave out, so only the first choice is required. */

export type ParsedResponse = Usable | Unusable;

interface Usable {
  readonly ok: true;
  readonly completion: Completion;
  readonly filters: Filters;
  /** The usage was no valid count, so the completion has none. */
  readonly oddUsage?: true;
  /** The usage is of this prompt alone, even if the request had several. */
  readonly ownUsage?: true;
  /** Set when the choice has no text. */
  readonly noText?: NoText;
  /** Set when the choice has no text, and no other call would bring one. */
  readonly spent?: Problem;
}

interface NoText {
  readonly problem: Problem;
  /** The choice has the form of another operation. */
  readonly isOther: boolean;
}

interface Unusable {
  readonly ok: false;
  readonly problem: Problem;
  /**
   * `mixed_up`: choices cannot be matched to prompts. `only_one`: one choice where several were asked for.
   */
  readonly form?: 'page' | 'mixed_up' | 'only_one';
}

/**
 * Characters kept of a text, and of a row's other texts together: 60 times what the service's models write.
 */
const LONGEST_TEXT = 1024 * 1024;

/** Characters kept of what a model says in place of an answer. */
const LONGEST_REFUSAL = 10_000;

export interface ExpectedAnswers {
  readonly prompts: number;
  /** Per prompt. */
  readonly choices: number;
  /** Some servers send log probabilities unasked. */
  readonly withLogprobs: boolean;
  readonly operation: Operation;
  /** That the request asks for, in a job that asks for one. @default none: answers need not tell it */
  readonly tier?: Tier | undefined;
}

/** As requests ask for it. */
export const TIERS = ['online', 'flex'] as const;
export type Tier = (typeof TIERS)[number];

/** Characters kept of the name of a tier. */
const LONGEST_TIER = 30;

/** An answer that does not say it is paid as any other: money is never understated. */
function tierOf(said: unknown): string {
  const name = typeof said === 'string' ? said.slice(0, LONGEST_TIER) : '';
  return ['', 'default', 'auto'].includes(name) ? 'online' : name;
}

/**
 * Reads a successful response: for each prompt its choices, and the filter results of the first. The usage is
 * that of the whole request, unless the service gives it for each prompt.
 */
export function readAnswers(body: string, asked: ExpectedAnswers): readonly ParsedResponse[] {
  const { prompts, withLogprobs, operation } = asked;
  const parsed = parseJson(body);
  const list = Array.isArray(parsed) ? merged(parsed, asked.choices) : null;
  const root = list?.answer ?? parsed;
  const all = (reading: ParsedResponse): readonly ParsedResponse[] =>
    Array.from({ length: prompts }, () => reading);
  if (root === undefined) return all(notJson(body));
  if (!isObject(root)) return all(noChoices);
  const choices: readonly unknown[] = Array.isArray(root['choices']) ? root['choices'] : [];
  if (choices.length === 0 && root['error']) {
    const error = messageOf(root);
    return all(
      error === null ? noChoices : unusable('error_in_answer', `the answer is an error: ${clip(error)}`),
    );
  }
  if (choices.length === 0) return all(noChoices);
  const own = choicesOf(choices, asked);
  if (own === null) return all(mixedUp(choices, asked));
  const hasText = (ofPrompt: readonly Obj[]): boolean =>
    ofPrompt.some((choice) => operation.text(choice) !== '');
  const usageIn = (value: unknown, isText: boolean) => usageOf(value, isText, operation.tellsMore);
  const shared = list === null ? usageIn(root['usage'], own.some(hasText)) : null;
  return own.map((ofPrompt, index): ParsedResponse => {
    if (ofPrompt.length === 1 && asked.choices > 1) return onlyOne(asked.choices);
    const usage = list === null ? shared : usageIn(list.usages.get(ofPrompt[0]), hasText(ofPrompt));
    const [choice = {}, ...others] = usefulFirst(ofPrompt, operation);
    const text = operation.text(choice);
    const refusal = operation.refusal(choice);
    const spent = refusal === null ? operation.spent(choice) : null;
    const isLong = text !== null && text.length > LONGEST_TEXT;
    const said: Completion = {
      // A slice would keep the whole string alive.
      text: isLong ? Buffer.from(text.slice(0, LONGEST_TEXT)).toString() : text,
      finish_reason: stringOr(choice['finish_reason']),
      usage: usage === 'odd' ? null : usage,
      model: stringOr(root['model']),
      id: stringOr(root['id']),
      created: numberOr(root['created']),
    };
    const filters = { prompt: promptFilters(root, index, prompts), completion: resultsIn(choice) };
    // Most responses have nothing more, and spreads make the object ten times slower to build.
    const completion =
      withLogprobs || isLong || others.length > 0 || refusal !== null || asked.tier !== undefined
        ? {
            ...said,
            ...(asked.tier !== undefined && { tier: tierOf(root['service_tier']) }),
            ...(refusal !== null && { text: null, refusal: refusal.slice(0, LONGEST_REFUSAL) }),
            ...(withLogprobs && logprobsOf(operation.logprobs(choice))),
            ...(isLong && { damaged: 'cut' as const }),
            ...(others.length > 0 && { others: furtherChoices(choice, others, operation) }),
          }
        : said;
    const noAnswer = text === null && refusal === null;
    if (usage !== 'odd' && list === null && !noAnswer && spent === null)
      return { ok: true, completion, filters };
    return {
      ...{ ok: true, completion, filters },
      ...(usage === 'odd' && { oddUsage: true }),
      ...(list !== null && { ownUsage: true }),
      ...(spent !== null
        ? { spent }
        : noAnswer && { noText: noText(operation.otherForm(root, choice), choice) }),
    };
  });
}

/**
 * Some builds of llama.cpp answer a list of prompts with a list of responses. Merges them, with the usage of
 * each choice beside it. They are in prompt order unless numbered.
 */
function merged(
  answers: readonly unknown[],
  most: number,
): { readonly answer: Obj; readonly usages: ReadonlyMap<Obj | undefined, unknown> } {
  const each = answers.map((answer) => (isObject(answer) ? answer : {}));
  const choices = each.map(({ choices: list }): readonly unknown[] =>
    Array.isArray(list) && list.length > 0 ? list.slice(0, most) : [null],
  );
  const numbers = choices.map(([choice]) => (isObject(choice) ? choice['index'] : undefined));
  const isNumbered = numbers.some((number) => number !== numbers[0]);
  const usages = new Map<Obj | undefined, unknown>();
  const all = choices.flatMap((ofPrompt, prompt) =>
    ofPrompt.map((choice, i) => {
      if (!isObject(choice)) return null;
      const placed = { ...choice, index: isNumbered ? choice['index'] : prompt * most + i };
      usages.set(placed, each[prompt]?.['usage']);
      return placed;
    }),
  );
  return { answer: { ...each[0], choices: all }, usages };
}

/**
 * Null when the choices cannot be assigned. A single prompt owns all choices, whatever their indexes; with
 * several, one wrong index means that any choice may be a neighbour's.
 */
function choicesOf(
  choices: readonly unknown[],
  { prompts, choices: ofEach }: ExpectedAnswers,
): readonly (readonly Obj[])[] | null {
  if (prompts === 1) {
    const own = choices.slice(0, ofEach).filter(isObject);
    return own.length > 0 ? [own] : null;
  }
  const all = prompts * ofEach;
  const own: Obj[] = [];
  for (const choice of choices) {
    const index = isObject(choice) ? choice['index'] : null;
    const isPlace = typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < all;
    if (!isObject(choice) || !isPlace || own[index] !== undefined) return null;
    own[index] = choice;
  }
  if (choices.length !== all) return null;
  return Array.from({ length: prompts }, (_, prompt) => own.slice(prompt * ofEach, (prompt + 1) * ofEach));
}

/** The usable choices in order; else the first blocked by a filter; else the first. */
function usefulFirst(choices: readonly Obj[], operation: Operation): readonly Obj[] {
  if (choices.length === 1) return choices;
  const isFiltered = (choice: Obj): boolean =>
    isBlocked(stringOr(choice['finish_reason']), resultsIn(choice));
  const isAnswer = (choice: Obj): boolean =>
    operation.text(choice) !== null && operation.refusal(choice) === null && operation.spent(choice) === null;
  const useful = choices.filter((choice) => isAnswer(choice) && !isFiltered(choice));
  return useful.length > 0 ? useful : [choices.find(isFiltered) ?? choices[0] ?? {}];
}

/** Omits texts that exceed the limit together: no label is read from them. */
function furtherChoices(first: Obj, others: readonly Obj[], operation: Operation): readonly Choice[] {
  const said = JSON.stringify(resultsIn(first));
  let length = 0;
  return others.flatMap((choice): Choice[] => {
    const text = operation.text(choice) ?? '';
    if (length + text.length > LONGEST_TEXT) return [];
    length += text.length;
    const filters = resultsIn(choice);
    const isSame = JSON.stringify(filters) === said;
    return [{ text, finish_reason: stringOr(choice['finish_reason']), ...(!isSame && { filters }) }];
  });
}

export const isBlocked = (finishReason: string | null, filters: FilterResults | null): boolean =>
  finishReason === 'content_filter' || anyFiltered(filters);

export const anyFiltered = (results: FilterResults | null): boolean =>
  results !== null && Object.values(results).some((result) => result.filtered === true);

const unusable = (code: string, message: string): Unusable => ({ ok: false, problem: { code, message } });
const noChoices = unusable('no_choices', 'the answer has no choice for the prompt');

/** Sent by servers that do not know `n`. */
const onlyOne = (choices: number): ParsedResponse => ({
  ...unusable('choices_missing', `the answer has one choice, and ${choices} are asked for`),
  form: 'only_one',
});

function mixedUp(choices: readonly unknown[], { prompts, choices: ofEach }: ExpectedAnswers): ParsedResponse {
  if (prompts === 1) return noChoices;
  const shown = choices
    .slice(0, 10)
    .map((choice) => (isObject(choice) && JSON.stringify(choice['index'])) || 'none');
  const more = choices.length > shown.length ? ', …' : '';
  const indexes = clip(`${shown.join(', ')}${more}`, 80);
  return {
    ...unusable(
      'choices_mixed_up',
      `an answer to ${prompts} prompts must have one choice for each index from 0 to ${prompts * ofEach - 1}; it has ${indexes}`,
    ),
    form: 'mixed_up',
  };
}

/** A portal, a login or a wrong address sends a page; its first line and title show whose it is. */
function notJson(body: string): ParsedResponse {
  const start = body.slice(0, 4000).trim();
  if (start === '') return unusable('not_json', 'the answer is empty');
  const line = clip(start.split(/[\r\n]/, 1)[0] ?? '', SAMPLE);
  if (!start.startsWith('<')) return unusable('not_json', `the answer is not JSON: ${line}`);
  const title = between(start, '<title>', '</title>');
  const named = title === '' || line.includes(title) ? '' : ` … ${title}`;
  return { ...unusable('not_json', `the answer is a web page and not JSON: ${line}${named}`), form: 'page' };
}

function between(text: string, before: string, after: string): string {
  const lower = text.toLowerCase();
  const from = lower.indexOf(before);
  const to = lower.indexOf(after, from);
  return from === -1 || to === -1 ? '' : clip(text.slice(from + before.length, to), SAMPLE);
}

function noText(otherForm: string | null, choice: Obj): NoText {
  if (otherForm !== null)
    return { problem: { code: 'operation_not_supported', message: otherForm }, isOther: true };
  // The choice without its long, irrelevant fields.
  const { content_filter_results: _, content_filter_result: __, logprobs: ___, ...said } = choice;
  const sample = clip(JSON.stringify(said), SAMPLE);
  return { problem: { code: 'no_text', message: `the answer has no text: ${sample}` }, isOther: false };
}

/** Some servers leave out `completion_tokens` when they generated nothing: 0. All else is `odd`. */
export function usageOf(value: unknown, isText: boolean, tellsMore: boolean): Usage | 'odd' | null {
  if (value === undefined || value === null) return null;
  if (!isObject(value)) return 'odd';
  const { prompt_tokens, completion_tokens, total_tokens } = value;
  const completion = completion_tokens ?? (isText ? undefined : 0);
  if (!isCount(prompt_tokens) || !isCount(completion)) return 'odd';
  const total = total_tokens ?? prompt_tokens + completion;
  if (!isCount(total)) return 'odd';
  const usage = { prompt_tokens, completion_tokens: completion, total_tokens: total };
  if (!tellsMore) return usage;
  const cached = partOf(value['prompt_tokens_details'], 'cached_tokens', prompt_tokens);
  const thought = partOf(value['completion_tokens_details'], 'reasoning_tokens', completion);
  return {
    ...usage,
    ...(cached !== null && { cached_tokens: cached }),
    ...(thought !== null && { reasoning_tokens: thought }),
  };
}

/** A part of `whole` tokens; null when the service does not say, or says what cannot be. */
function partOf(details: unknown, name: string, whole: number): number | null {
  const tokens = isObject(details) ? details[name] : null;
  return isCount(tokens) && tokens <= whole ? tokens : null;
}

/**
 * Most JSON characters of a row's log probabilities: some 1,500 tokens with five alternatives. They wait in
 * the ledger with the answer, and a commit holds those of 2,000 rows.
 */
const MOST_LOGPROBS = 256 * 1024;

/** Both known forms have four levels; deep nesting would overflow the stack of JSON writers. */
const DEEPEST_LOGPROBS = 20;

const isDeep = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeep(member, levels - 1)));

/** The service's form, or the chat operation's, kept unchanged. */
function logprobsOf(value: unknown): Pick<Completion, 'logprobs' | 'damaged'> {
  if (!isObject(value)) return {};
  if (isDeep(value, DEEPEST_LOGPROBS) || JSON.stringify(value).length > MOST_LOGPROBS)
    return { damaged: 'logprobs' };
  return { logprobs: value as { readonly [name: string]: Json } };
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** `prompt_annotations` is an older name. A single entry may lack its index. */
function promptFilters(root: Obj, index: number, prompts: number): FilterResults | null {
  const list = root['prompt_filter_results'] ?? root['prompt_annotations'];
  if (!Array.isArray(list)) return null;
  const entries = list.filter(isObject);
  const entry =
    entries.find((item) => item['prompt_index'] === index) ?? (prompts === 1 ? entries[0] : undefined);
  return entry === undefined ? null : resultsIn(entry);
}

/** The singular name carries an error instead of results, or the results of an inner error. */
function resultsIn(holder: Obj): FilterResults | null {
  return filterResults(holder['content_filter_results'] ?? holder['content_filter_result']);
}

/**
 * Keeps each category with content; null when none has (the filter was unavailable). Plain loops: this runs
 * for every row, and was most of the cost of reading a response.
 */
function filterResults(value: unknown): FilterResults | null {
  if (!isObject(value)) return null;
  const results: { [category: string]: FilterVerdict } = {};
  let any = false;
  for (const category of Object.keys(value)) {
    const item = value[category];
    if (category === 'error' || category === '__proto__' || !isObject(item)) continue;
    const verdict = filterVerdict(item);
    if (verdict === null) continue;
    results[category] = verdict;
    any = true;
  }
  return any ? results : null;
}

/** The most common verdict, shared because thousands are kept. */
const SAFE: FilterVerdict = { filtered: false, severity: 'safe' };

function filterVerdict({ filtered, severity, detected }: Obj): FilterVerdict | null {
  if (filtered === false && severity === 'safe' && detected === undefined) return SAFE;
  const verdict: { filtered?: boolean; severity?: string; detected?: boolean } = {};
  if (typeof filtered === 'boolean') verdict.filtered = filtered;
  if (typeof severity === 'string') verdict.severity = severity;
  if (typeof detected === 'boolean') verdict.detected = detected;
  return 'filtered' in verdict || 'severity' in verdict || 'detected' in verdict ? verdict : null;
}

/** Fields are empty strings when missing. */
export interface ServiceError {
  readonly status: number;
  readonly code: string;
  readonly type: string;
  /** One line, at most 500 characters. */
  readonly message: string;
  readonly innerCode: string;
  readonly filters: FilterResults | null;
}

/** Reads any other response: the gateway's form, the model's form, text, HTML or nothing. */
export function readError(status: number, body: string): ServiceError {
  const parsed = parseJson(body);
  const root = isObject(parsed) ? parsed : {};
  const error = isObject(root['error']) ? root['error'] : root;
  const inner = error['innererror'] ?? error['inner_error'];
  return {
    status,
    code: codeText(error['code']),
    type: codeText(error['type'] ?? root['error_type']),
    message: clip(messageOf(root) ?? plainText(parsed === undefined ? body : '') ?? statusText(status)),
    innerCode: isObject(inner) ? codeText(inner['code']) : '',
    filters: isObject(inner) ? resultsIn(inner) : null,
  };
}

function messageOf(root: Obj): string | null {
  const error = root['error'];
  const detail = root['detail'];
  const candidates = [
    isObject(error) ? error['message'] : error,
    root['message'],
    // A list of problems, each with its input. That may be the prompt, so only the messages are kept.
    Array.isArray(detail)
      ? detail
          .filter(isObject)
          .map((item) => item['msg'])
          .join('; ')
      : detail,
  ];
  return candidates.map(stringOr).find((text) => text !== null && text.trim() !== '') ?? null;
}

const plainText = (body: string): string | null =>
  body.trim() === '' || body.trimStart().startsWith('<') ? null : body;

const statusText = (status: number): string => STATUS_CODES[status] ?? 'no message';

const SAMPLE = 160;

const clip = (text: string, most = 500): string => {
  const line = text
    .slice(0, 4000)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
};

type Obj = { readonly [key: string]: unknown };

const stringOr = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const numberOr = (value: unknown): number | null => (typeof value === 'number' ? value : null);

const codeText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';
