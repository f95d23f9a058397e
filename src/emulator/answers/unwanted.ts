import { pick } from '../../core/random.js';
import type { ReadPrompt } from './read-prompt.js';

/** Answers against the instructions. `cut` shortens any answer; the others change its content. */
export const UNWANTED = ['invalid', 'fenced', 'cut', 'chatty', 'broken'] as const;
export type Unwanted = (typeof UNWANTED)[number];

/** None contains a digit or a bracket, so none reads as a number or as JSON. */
const INVALID = [
  'I am not sure.',
  'N/A',
  'It is hard to say.',
  'As a language model, I cannot tell.',
] as const;

/** @param random chooses the words of an invalid answer */
export function unwanted(
  way: Unwanted,
  { spec, cue }: ReadPrompt,
  random: () => number,
): (text: string) => string {
  const isJson = spec.kind === 'json';
  const around = (change: (content: string) => string) => (text: string) =>
    text.replace(/\S[\s\S]*/, (content) => change(content));
  switch (way) {
    case 'invalid':
      return around(() => {
        const chosen = pick(random, INVALID);
        const labels = spec.kind === 'labels' ? spec.labels : [];
        return labels.some((label) => chosen.toLowerCase().includes(label.toLowerCase())) ? '…' : chosen;
      });
    case 'fenced':
      return around((content) => `\`\`\`${isJson ? 'json' : ''}\n${content}\n\`\`\``);
    case 'chatty': {
      const what = cue.toLowerCase() || 'answer';
      return around((content) =>
        spec.kind === 'labels'
          ? `Sure! The ${what} is ${content}.`
          : `Sure! Here is the ${isJson ? 'JSON' : what}:\n\n${content}\n\nLet me know if you need anything else.`,
      );
    }
    case 'broken':
      return (text) => (isJson ? text.replace(/(?=[}\]]$)/, ',') : text);
    case 'cut':
      return (text) => text;
  }
}
