import { type Message, type Prompt, ROLES } from '../core/model.js';
import { either } from '../core/errors.js';

/** Of one conversation; more would be no request that a service takes. */
const MOST_MESSAGES = 2048;

type Read<T> = T | { readonly problem: string };

/** A text is the message of a user. @returns in words what is wrong with it */
export function conversationOf(value: unknown): Read<{ readonly prompt: Prompt }> {
  if (typeof value === 'string') return { prompt: value };
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_MESSAGES)
    return { problem: `messages must be a list of 1 to ${MOST_MESSAGES} messages, got ${shown(value)}` };
  const prompt: Message[] = [];
  for (const [i, each] of value.entries()) {
    const message = messageOf(each);
    if ('problem' in message) return { problem: `messages[${i}]${message.problem}` };
    prompt.push(message);
  }
  const roles = new Set(prompt.map(({ role }) => role));
  if (roles.has('system') && roles.has('developer'))
    return { problem: 'messages must not have the roles system and developer both: they are the same' };
  return { prompt };
}

function messageOf(value: unknown): Read<Message> {
  if (typeof value !== 'object' || value === null)
    return { problem: ` must have role and content, got ${shown(value)}` };
  const { role: named, content, ...others }: { [field: string]: unknown } = { ...value };
  const role = ROLES.find((known) => known === named);
  if (role === undefined) return { problem: `.role must be ${either(ROLES)}, got ${shown(named)}` };
  const [other] = Object.keys(others);
  if (other !== undefined) return { problem: ` has ${other}: only role and content are sent, take it out` };
  const text = textOf(content);
  return text === null
    ? { problem: `.content must be a text, or a list of parts of type text, got ${shown(content)}` }
    : { role, content: text };
}

/** The text of a message, also where it is in parts; null for anything else. */
export function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((part): unknown => (part?.type === 'text' ? part.text : null));
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null;
}

/** As {@link conversationOf} makes it: a queue entry holds nothing else. */
export const isConversation = (value: unknown): value is Prompt =>
  typeof value === 'string' ||
  (Array.isArray(value) &&
    value.every((each) => typeof each?.content === 'string') &&
    !('problem' in conversationOf(value)));

export const messagesOf = (prompt: Prompt): readonly Message[] =>
  typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt;

export const shown = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 60);
