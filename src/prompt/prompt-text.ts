import type { Message, Prompt } from '../core/model.js';

/** The texts of a prompt, in order. */
export const textsOf = (prompt: Prompt): readonly string[] =>
  typeof prompt === 'string' ? [prompt] : prompt.map(({ content }) => content);

/** All of a prompt as one text, for estimates. */
export const promptText = (prompt: Prompt): string => textsOf(prompt).join('\n');

/** With the roles of messages, for people. */
export const shownText = (prompt: Prompt): string =>
  typeof prompt === 'string'
    ? prompt
    : prompt.map(({ role, content }) => `${role}:\n${content}`).join('\n\n');

/** With the last text replaced by what `change` makes of it. */
export function withLastText(prompt: Prompt, change: (text: string) => string): Prompt {
  if (typeof prompt === 'string') return change(prompt);
  const last = prompt.length - 1;
  return prompt.map(
    (message, i): Message => (i === last ? { ...message, content: change(message.content) } : message),
  );
}
