import { isObject } from '../json.js';
import type { Json } from '../model.js';
import { UNWANTED, type Unwanted } from './answers/unwanted.js';
import type { Delivery } from './delivery.js';
import type { Body } from './operation.js';
import { type Asked, faultReply, garbage, type Hint, insufficientQuota, type Reply } from './refusal.js';

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
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
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

/** What can go wrong on the wire, beyond a reply. */
const WIRE_FAULTS = ['reset', 'truncate', 'garbage', 'drip', 'hang'] as const;
type WireFault = (typeof WIRE_FAULTS)[number];

/** Something other than the usual answer. */
export type Fault =
  /** A status from 300 to 599, with a body that was seen with it. */
  | { readonly kind: 'status'; readonly name: string; readonly status: number }
  /** 429 for an account without credit. */
  | { readonly kind: 'insufficient-quota'; readonly name: string }
  /** Word for word what a script says. */
  | { readonly kind: 'reply'; readonly name: string; readonly reply: Reply }
  /** An answer in a way that nobody asked for. Unlike a form it is what the model wrote, and its tokens are counted so. */
  | { readonly kind: 'answer'; readonly name: string; readonly way: Unwanted }
  /** A good answer in one of the less usual {@link FORMS}. */
  | { readonly kind: 'form'; readonly name: string; readonly form: Form }
  /**
   * `reset`: the connection is reset once the request is read; `truncate`: half of the answer; `garbage`: a page of
   * HTML with status 200; `drip`: a byte of the answer each second; `hang`: no answer.
   */
  | { readonly kind: WireFault; readonly name: string };

/** The names of all faults, for people. */
export const FAULT_NAMES = `a status from 300 to 599, ${[...WIRE_FAULTS, 'insufficient-quota', ...UNWANTED, ...FORMS.keys()].join(', ')}`;

/** The fault of a name, or `null` when there is none. */
export function faultNamed(name: string): Fault | null {
  const status = /^[345]\d\d$/.test(name) ? Number(name) : null;
  if (status !== null) return { kind: 'status', name, status };
  const wire = WIRE_FAULTS.find((known) => known === name);
  if (wire) return { kind: wire, name };
  const way = UNWANTED.find((known) => known === name);
  if (way) return { kind: 'answer', name, way };
  const form = FORMS.get(name);
  if (form) return { kind: 'form', name, form };
  return name === 'insufficient-quota' ? { kind: 'insufficient-quota', name } : null;
}

/** A fault, with what decides between its variants. */
export interface DrawnFault {
  readonly fault: Fault;
  readonly random: () => number;
}

/** What a fault puts in the place of an answer; `null` when it needs the answer. */
export function inPlaceOfAnswer({ fault, random }: DrawnFault, asked: Asked, hint: Hint): Delivery | null {
  const whole = (reply: Reply): Delivery => ({ kind: 'whole', reply });
  switch (fault.kind) {
    case 'status':
      return whole(faultReply(fault.status, asked, hint, random));
    case 'insufficient-quota':
      return whole(insufficientQuota());
    case 'reply':
      return whole(fault.reply);
    case 'garbage':
      return whole(garbage());
    case 'reset':
    case 'hang':
      return { kind: fault.kind };
    case 'truncate':
    case 'drip':
    case 'answer':
    case 'form':
      return null;
  }
}

/** An answer as a fault leaves it; `null` when it leaves it alone. Forms are forms of an object: a stream has none. */
export function withFault(reply: Reply, { fault, random }: DrawnFault): Delivery | null {
  switch (fault.kind) {
    case 'form':
      return isObject(reply.body)
        ? { kind: 'whole', reply: { ...reply, body: fault.form(reply.body) } }
        : null;
    case 'truncate':
      return { kind: 'truncate', reply, random };
    case 'drip':
      return { kind: 'drip', reply };
    default:
      return null;
  }
}
