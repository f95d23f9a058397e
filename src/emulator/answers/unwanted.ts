import { pick } from '../random.js';
import { partsRead, wantedBy } from './answer.js';

/** Ways in which a model answers that nobody asked for. `cut` shortens any answer; the others change what it says. */
export const UNWANTED = ['invalid', 'fenced', 'cut', 'chatty', 'broken'] as const;
export type Unwanted = (typeof UNWANTED)[number];

/** None has a digit or a bracket in it, so that it is no number and no JSON. */
const INVALID = [
  'I am not sure.',
  'N/A',
  'It is hard to say.',
  'As a language model, I cannot tell.',
] as const;

/** An answer to a prompt, in a way that nobody asked for. */
export function unwanted(way: Unwanted, text: string, prompt: string, random: () => number): string {
  const content = text.trimStart();
  const lead = text.slice(0, text.length - content.length);
  const parts = partsRead(prompt);
  const wanted = wantedBy(parts);
  const isJson = wanted.kind === 'json';
  switch (way) {
    case 'invalid': {
      const chosen = pick(random, INVALID);
      const labels = wanted.kind === 'label' ? wanted.labels : [];
      const hasLabel = labels.some(({ name }) => chosen.toLowerCase().includes(name.toLowerCase()));
      return lead + (hasLabel ? '…' : chosen);
    }
    case 'fenced':
      return `${lead}\`\`\`${isJson ? 'json' : ''}\n${content}\n\`\`\``;
    case 'chatty': {
      const cue = /(.*)$/.exec(parts.instruction)?.[1]?.toLowerCase() || 'answer';
      return wanted.kind === 'label'
        ? `${lead}Sure! The ${cue} is ${content}.`
        : `${lead}Sure! Here is the ${isJson ? 'JSON' : cue}:\n\n${content}\n\nLet me know if you need anything else.`;
    }
    case 'broken':
      return isJson ? text.replace(/(?=[}\]]$)/, ',') : text;
    case 'cut':
      return text;
  }
}
