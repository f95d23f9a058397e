import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';
import { UNWANTED, type Unwanted } from './answers/unwanted.js';
import { type Delivery, whole } from './delivery.js';
import type { Body } from './operation.js';
import {
  type CalledModel,
  faultReply,
  garbage,
  type Hint,
  insufficientQuota,
  type Reply,
} from './refusal.js';

type Form = (body: Body) => Body;

const FILTER_ERROR = {
  error: { code: 'content_filter_error', message: 'The contents are not filtered' },
};

const LATER_CATEGORIES = {
  jailbreak: { filtered: false, detected: false },
  profanity: { filtered: false, detected: true },
  protected_material_text: { filtered: false, detected: false },
};

const NO_DETAILS = { prompt_tokens_details: null, completion_tokens_details: null };

const TOOL_CALL = { id: 'call_1', type: 'function', function: { name: 'search', arguments: '{}' } };

const LARGEST = Number.MAX_SAFE_INTEGER;

/**
 * Forms of an answer: each rewrites the usual body. The first are valid forms that such services were seen to
 * send; a client must read them too. The others are what broken gateways make of an answer; a client must
 * reject them, or at least not trust their numbers.
 */
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ['no-usage', renamed('usage', null)],
  ['no-finish-reason', eachChoice(having({ finish_reason: null }))],
  ['no-prompt-filters', renamed('prompt_filter_results', null)],
  // The older name.
  ['prompt-annotations', renamed('prompt_filter_results', 'prompt_annotations')],
  // The filter was not available, reported in the singular member …
  ['filter-error', filtered('content_filter_result', () => FILTER_ERROR)],
  // … or in the plural one.
  ['filter-error-plural', filtered('content_filter_results', () => FILTER_ERROR)],
  [
    'later-categories',
    filtered('content_filter_results', (results) =>
      isObject(results) ? { ...results, ...LATER_CATEGORIES } : results,
    ),
  ],
  [
    'null-details',
    renamed('usage', 'usage', (usage) => (isObject(usage) ? { ...usage, ...NO_DETAILS } : usage)),
  ],
  ['no-tier', renamed('service_tier', null)],

  ['no-text', eachText((member) => renamed(member, null))],
  ['null-text', eachText((member) => having({ [member]: null }))],
  ['number-text', eachText((member) => having({ [member]: 42 }))],
  // What the other operation answers.
  [
    'chat',
    (body) => ({
      ...eachChoice(({ text, ...choice }) => ({
        message: { role: 'assistant', content: text ?? null },
        ...choice,
      }))(body),
      object: 'chat.completion',
    }),
  ],
  [
    'text',
    (body) => ({
      ...eachChoice(({ message, ...choice }) =>
        isObject(message) ? { ...choice, text: message['content'] ?? null } : choice,
      )(body),
      object: 'text_completion',
    }),
  ],
  [
    'parts',
    eachChoice(
      inMessage(({ content, ...message }) => ({
        ...message,
        content: [{ type: 'text', text: content ?? '' }],
      })),
    ),
  ],
  [
    'tool-calls',
    eachChoice((choice) =>
      'message' in choice
        ? {
            ...inMessage(having({ content: null, tool_calls: [TOOL_CALL] }))(choice),
            finish_reason: 'tool_calls',
          }
        : choice,
    ),
  ],
  ['shifted-indexes', eachChoice((choice) => ({ ...choice, index: Number(choice['index']) + 1 }))],
  ['equal-indexes', eachChoice(having({ index: 0 }))],
  ['no-indexes', eachChoice(renamed('index', null))],
  ['missing-choice', renamed('choices', 'choices', (choices) => [choices].flat().slice(1))],
  ['empty-usage', having({ usage: {} })],
  ['total-usage', having({ usage: { total_tokens: 7 } })],
  ['text-usage', withUsage('5', '2', '7')],
  ['negative-usage', withUsage(-5, -2, -7)],
  ['huge-usage', withUsage(LARGEST, LARGEST, LARGEST)],
]);

function having(members: Body): Form {
  return (body) => ({ ...body, ...members });
}

function withUsage(prompt: Json, completion: Json, total: Json): Form {
  return having({ usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } });
}

/** `null` as name leaves the member out. */
function renamed(member: string, name: string | null, value: (old: Json) => Json = (old) => old): Form {
  return (body) => {
    const { [member]: old, ...others } = body;
    return old === undefined || name === null ? others : { ...others, [name]: value(old) };
  };
}

function filtered(name: string, value: (old: Json) => Json): Form {
  return eachChoice(renamed('content_filter_results', name, value));
}

function eachChoice(form: Form): Form {
  return renamed('choices', 'choices', (choices) =>
    [choices].flat().map((choice) => (isObject(choice) ? form(choice) : choice)),
  );
}

function inMessage(form: Form): Form {
  return renamed('message', 'message', (message) => (isObject(message) ? form(message) : message));
}

/** Changes the member that has the text: of a choice, or of its message. */
function eachText(change: (member: string) => Form): Form {
  return eachChoice((choice) =>
    'message' in choice ? inMessage(change('content'))(choice) : change('text')(choice),
  );
}

const SIMPLE = ['reset', 'truncate', 'garbage', 'drip', 'hang', 'insufficient-quota'] as const;

export type Disturbance =
  /** A status from 300 to 599, with a body that was seen with it. */
  | { readonly kind: 'status'; readonly name: string; readonly status: number }
  /** The exact reply from a script. */
  | { readonly kind: 'reply'; readonly name: string; readonly reply: Reply }
  /** An unwanted answer. Unlike a form, it is what the model wrote, and its tokens are counted. */
  | { readonly kind: 'answer'; readonly name: string; readonly way: Unwanted }
  | { readonly kind: 'form'; readonly name: string; readonly form: Form }
  /**
   * `reset`: the connection is reset once the request is read; `truncate`: half of the answer; `garbage`: an
   * HTML page with status 200; `drip`: one byte of the answer per second; `hang`: no answer;
   * `insufficient-quota`: 429 for an account without credit.
   */
  | { readonly kind: (typeof SIMPLE)[number]; readonly name: string };

export const FAULT_NAMES = `a status from 300 to 599, ${[...SIMPLE, ...UNWANTED, ...FORMS.keys()].join(', ')}`;

export function disturbanceNamed(name: string): Disturbance | null {
  if (/^[345]\d\d$/.test(name)) return { kind: 'status', name, status: Number(name) };
  const kind = SIMPLE.find((known) => known === name);
  if (kind) return { kind, name };
  const way = UNWANTED.find((known) => known === name);
  if (way) return { kind: 'answer', name, way };
  const form = FORMS.get(name);
  return form ? { kind: 'form', name, form } : null;
}

export interface Drawn {
  readonly fault: Disturbance;
  readonly random: () => number;
}

/** What a disturbance sends instead of an answer; `null` when it needs the answer. */
export function inPlaceOfAnswer({ fault, random }: Drawn, called: CalledModel, hint: Hint): Delivery | null {
  switch (fault.kind) {
    case 'status':
      return whole(faultReply(fault.status, called, hint, random));
    case 'reply':
      return whole(fault.reply);
    case 'garbage':
      return whole(garbage());
    case 'insufficient-quota':
      return whole(insufficientQuota());
    case 'reset':
    case 'hang':
      return { kind: fault.kind };
    default:
      return null;
  }
}

/** A disturbed answer; `null` when it stays unchanged. Forms apply to an object only: a stream has none. */
export function disturbed(reply: Reply, { fault, random }: Drawn): Delivery | null {
  switch (fault.kind) {
    case 'form':
      return isObject(reply.body) ? whole({ ...reply, body: fault.form(reply.body) }) : null;
    case 'truncate':
    case 'drip':
      return { kind: fault.kind, reply, random };
    default:
      return null;
  }
}
