import { STATUS_CODES } from 'node:http';
import type { Completion, Fault, FilterResults, Filters, FilterVerdict, Usage } from '../model.js';

/**
 * Reads response bodies. The forms come from service-like servers that differ in what they leave out, so
 * everything is optional but the first choice.
 */

/** What a 200 body holds. */
export type Reading =
  | { readonly ok: true; readonly completion: Completion; readonly filters: Filters }
  | { readonly ok: false; readonly fault: Fault };

/**
 * Reads the body of a successful response: for each prompt of the request the first choice, and what the filters
 * say about it. The usage of each is that of the whole request.
 */
export function readCompletions(body: string, prompts: number): readonly Reading[] {
  const parsed = parse(body);
  const root = Array.isArray(parsed) ? merged(parsed) : parsed;
  const all = (reading: Reading): readonly Reading[] => Array.from({ length: prompts }, () => reading);
  if (root === undefined) return all(unusable('not_json', 'the answer is not JSON'));
  if (!isObject(root)) return all(noChoices);
  const choices: readonly unknown[] = Array.isArray(root['choices']) ? root['choices'] : [];
  if (choices.length === 0 && root['error']) {
    const error = messageOf(root);
    return all(
      error === null ? noChoices : unusable('error_in_answer', `the answer is an error: ${clip(error)}`),
    );
  }
  const usage = usageOf(root['usage']);
  return Array.from({ length: prompts }, (_, index): Reading => {
    const choice = choiceOf(choices, index, prompts);
    if (choice === null) return noChoices;
    return {
      ok: true,
      completion: {
        text: stringOr(choice['text']),
        finish_reason: stringOr(choice['finish_reason']),
        usage,
        model: stringOr(root['model']),
        id: stringOr(root['id']),
        created: numberOr(root['created']),
      },
      filters: { prompt: promptFilters(root, index), completion: resultsIn(choice) },
    };
  });
}

/** llama.cpp answers a list of prompts with a list of answers, in their order: here as one answer with all choices. */
function merged(answers: readonly unknown[]): Obj {
  const each = answers.map((answer) => (isObject(answer) ? answer : {}));
  const usages = each.flatMap((answer) => usageOf(answer['usage']) ?? []);
  const sum = (name: 'prompt_tokens' | 'completion_tokens'): number =>
    usages.reduce((total, usage) => total + usage[name], 0);
  return {
    ...each[0],
    choices: each.map(({ choices }, index) => {
      const choice = Array.isArray(choices) ? choices[0] : null;
      return isObject(choice) ? { ...choice, index } : null;
    }),
    usage:
      usages.length === 0
        ? null
        : { prompt_tokens: sum('prompt_tokens'), completion_tokens: sum('completion_tokens') },
  };
}

/** The first choice of a prompt. Of a single prompt it is the first of all, whatever index it says. */
function choiceOf(choices: readonly unknown[], index: number, prompts: number): Obj | null {
  const choice =
    prompts === 1 ? choices[0] : choices.find((each) => isObject(each) && each['index'] === index);
  return isObject(choice) ? choice : null;
}

const unusable = (code: string, message: string): Reading => ({ ok: false, fault: { code, message } });
const noChoices = unusable('no_choices', 'the answer has no choice for the prompt');

/** A member that is missing counts as 0: the service leaves it out when there is nothing to count. */
function usageOf(value: unknown): Usage | null {
  if (!isObject(value)) return null;
  const said = ['prompt_tokens', 'completion_tokens', 'total_tokens'].map((name) => numberOr(value[name]));
  // Half a token, or one without end, is no count: it is as if the service had said nothing.
  if (!said.every((count) => count === null || (Number.isSafeInteger(count) && count >= 0))) return null;
  const [prompt, completion, total] = said;
  const prompt_tokens = prompt ?? 0;
  const completion_tokens = completion ?? 0;
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: total ?? prompt_tokens + completion_tokens,
  };
}

/** The entry of a prompt. `prompt_annotations` is an older name of the field. */
function promptFilters(root: Obj, index: number): FilterResults | null {
  const list = root['prompt_filter_results'] ?? root['prompt_annotations'];
  if (!Array.isArray(list)) return null;
  const entries = list.filter(isObject);
  const entry =
    entries.find((item) => item['prompt_index'] === index) ?? (index === 0 ? entries[0] : undefined);
  return entry === undefined ? null : resultsIn(entry);
}

/** The singular form carries an error in place of results, or the results of an inner error. */
function resultsIn(holder: Obj): FilterResults | null {
  return filterResults(holder['content_filter_results'] ?? holder['content_filter_result']);
}

/**
 * Keeps every category that says something; `null` when none does (the filter was not available). Plain loops:
 * this runs for every row, and was most of the cost of reading an answer.
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

function filterVerdict({ filtered, severity, detected }: Obj): FilterVerdict | null {
  const verdict: { filtered?: boolean; severity?: string; detected?: boolean } = {};
  if (typeof filtered === 'boolean') verdict.filtered = filtered;
  if (typeof severity === 'string') verdict.severity = severity;
  if (typeof detected === 'boolean') verdict.detected = detected;
  return 'filtered' in verdict || 'severity' in verdict || 'detected' in verdict ? verdict : null;
}

/** What an error response says. Empty strings where it does not. */
export interface ServiceError {
  readonly status: number;
  readonly code: string;
  readonly type: string;
  /** One line, at most 500 characters. */
  readonly message: string;
  readonly innerCode: string;
  /** What the content filter says of the prompt. */
  readonly filters: FilterResults | null;
}

/** Reads the body of any other response: the gateway's form, the model's form, text, HTML or nothing. */
export function readError(status: number, body: string): ServiceError {
  const parsed = parse(body);
  const root = isObject(parsed) ? parsed : {};
  const error = isObject(root['error']) ? root['error'] : root;
  const inner = error['innererror'];
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
    // A list of problems, each with what was received: that may be the prompt, so only the words are kept.
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

const clip = (text: string): string => {
  const line = text
    .slice(0, 4000)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  return line.length > 500 ? `${line.slice(0, 499)}…` : line;
};

type Obj = { readonly [key: string]: unknown };

const isObject = (value: unknown): value is Obj =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const stringOr = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const numberOr = (value: unknown): number | null => (typeof value === 'number' ? value : null);

const codeText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
