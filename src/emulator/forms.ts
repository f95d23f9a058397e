import type { Json } from '../model.js';
import { type Body, isObject } from './checks.js';

type Form = (body: Body) => Body;

const FILTER_ERROR = {
  error: { code: 'content_filter_error', message: 'The contents are not filtered' },
};

const LATER_CATEGORIES = {
  jailbreak: { filtered: false, detected: false },
  profanity: { filtered: false, detected: true },
  protected_material_text: { filtered: false, detected: false },
};

/**
 * Forms of an answer: each turns the usual body into another. The first are good ones that the service and its like were
 * seen to send, and that a client must read as well. The others are what broken gateways make of an answer; a client must
 * not take them for one, or not for their numbers.
 */
export const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ['no-usage', without('usage')],
  ['no-finish-reason', eachChoice((choice) => ({ ...choice, finish_reason: null }))],
  ['no-prompt-filters', without('prompt_filter_results')],
  [
    // The older name.
    'prompt-annotations',
    ({ prompt_filter_results: results, ...body }) =>
      results === undefined ? body : { ...body, prompt_annotations: results },
  ],
  [
    // The filter was not available, said in the singular member …
    'filter-error',
    eachChoice(({ content_filter_results: results, ...choice }) =>
      results === undefined ? choice : { ...choice, content_filter_result: FILTER_ERROR },
    ),
  ],
  [
    // … or in the plural one.
    'filter-error-plural',
    eachChoice((choice) =>
      'content_filter_results' in choice ? { ...choice, content_filter_results: FILTER_ERROR } : choice,
    ),
  ],
  [
    'later-categories',
    eachChoice((choice) => {
      const results = choice['content_filter_results'];
      if (results === undefined || !isObject(results)) return choice;
      return { ...choice, content_filter_results: { ...results, ...LATER_CATEGORIES } };
    }),
  ],

  ['no-text', eachChoice(({ text: _, ...choice }) => choice)],
  ['null-text', eachChoice((choice) => ({ ...choice, text: null }))],
  ['number-text', eachChoice((choice) => ({ ...choice, text: 42 }))],
  [
    'chat',
    (body) => ({
      ...eachChoice(({ text, ...choice }) => ({
        ...choice,
        message: { role: 'assistant', content: text ?? null },
      }))(body),
      object: 'chat.completion',
    }),
  ],
  ['shifted-indexes', eachChoice((choice) => ({ ...choice, index: Number(choice['index']) + 1 }))],
  ['equal-indexes', eachChoice((choice) => ({ ...choice, index: 0 }))],
  ['no-indexes', eachChoice(({ index: _, ...choice }) => choice)],
  ['missing-choice', ({ choices, ...body }) => ({ ...body, choices: asList(choices).slice(1) })],
  ['empty-usage', withUsage({})],
  ['total-usage', withUsage({ total_tokens: 7 })],
  ['text-usage', withUsage({ prompt_tokens: '5', completion_tokens: '2', total_tokens: '7' })],
  ['negative-usage', withUsage({ prompt_tokens: -5, completion_tokens: -2, total_tokens: -7 })],
  [
    'huge-usage',
    withUsage({
      prompt_tokens: Number.MAX_SAFE_INTEGER,
      completion_tokens: Number.MAX_SAFE_INTEGER,
      total_tokens: Number.MAX_SAFE_INTEGER,
    }),
  ],
]);

function withUsage(usage: Body): Form {
  return (body) => ({ ...body, usage });
}

const asList = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? value : []);

function without(member: string): Form {
  return (body) => Object.fromEntries(Object.entries(body).filter(([name]) => name !== member));
}

function eachChoice(form: Form): Form {
  return (body) => {
    const choices = body['choices'];
    if (!Array.isArray(choices)) return body;
    return { ...body, choices: choices.map((choice) => (isObject(choice) ? form(choice) : choice)) };
  };
}
