import { jsonAnswer, numberFor } from './json.js';
import { choose, type Possibility, sharesOf, spelled, termsOf } from './labels.js';
import { type ReadPrompt, summaryOf, wordsOf } from './read-prompt.js';

/**
 * A model's text for a prompt. Depends on its arguments only; `random` decides what the prompt leaves open.
 */
export function answer(reading: ReadPrompt, random: () => number, temperature: number): string {
  return leadFor(reading) + contentOf(reading, random, temperature);
}

/**
 * Every possible answer to a prompt with labels, with its probability. The first is what {@link answer} gives
 * at temperature 0 for the same `random`. `null` for all other prompts.
 */
export function possibleAnswers(reading: ReadPrompt, random: () => number): readonly Possibility[] | null {
  const { spec, subject } = reading;
  if (spec.kind !== 'labels') return null;
  return spelled(sharesOf(subject, termsOf(spec.labels, reading), random), leadFor(reading));
}

function contentOf(reading: ReadPrompt, random: () => number, temperature: number): string {
  const { prompt, isContinued, spec, instruction, subject } = reading;
  switch (spec.kind) {
    case 'json': {
      const json = jsonAnswer(reading, spec.schema, random, temperature);
      // A prompt may begin the object itself.
      return isContinued && prompt.trimEnd().endsWith('{') ? json.slice(1) : json;
    }
    case 'labels':
      return choose(subject, termsOf(spec.labels, reading), random, temperature);
    case 'number': {
      const { min: minimum, max: maximum, integer } = spec;
      return String(
        numberFor('', { minimum, maximum, type: integer ? 'integer' : 'number' }, subject, random),
      );
    }
    case 'text':
      return /summar|tl;?dr/i.test(instruction) ? summaryOf(subject) : sentencesAbout(prompt, random);
  }
}

/** Completions begin with a space after a cue, and with an empty line after a finished sentence. */
function leadFor({ prompt, isContinued }: ReadPrompt): string {
  if (!isContinued || /\s$|[{["]$/.test(prompt)) return '';
  return prompt.endsWith(':') ? ' ' : '\n\n';
}

const SENTENCES = [
  'There are a few things to say about $.',
  'When it comes to $, the details matter, and so does the time available.',
  'It is worth comparing a few options before deciding about $.',
  'A small trial usually shows more of $ than a long discussion.',
  'With $ it helps to start simple and to add only what proves necessary.',
];

function sentencesAbout(prompt: string, random: () => number): string {
  const words = wordsOf(prompt.slice(-2_000)).filter(({ length }) => length > 5);
  const topic = words[Math.floor(random() * words.length)] ?? 'this';
  const first = Math.floor(random() * SENTENCES.length);
  const count = 2 + Math.floor(random() * 3);
  const chosen = [...SENTENCES, ...SENTENCES].slice(first, first + count);
  return chosen.join(' ').replaceAll('$', () => topic);
}
