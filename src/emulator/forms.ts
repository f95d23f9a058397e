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
 * Forms of a good answer that the service and its like were seen to send: each turns the usual body into one that
 * a client must read as well.
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
]);

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
