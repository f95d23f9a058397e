import { jsonAnswer, numberFor } from './json.js';
import { choose, sharesOf, termsOf } from './labels.js';
import { type Possibility, spelled } from './possible.js';
import { type Reading, summaryOf, wordsOf } from './reading.js';

/**
 * What stands in for the text of a model: a label, JSON, a number, a summary or some sentences, with the whitespace that
 * completions begin with. A function of its arguments; `random` decides what the prompt leaves open.
 */
export function answer(reading: Reading, random: () => number, temperature: number): string {
  return leadFor(reading.prompt) + contentOf(reading, random, temperature);
}

/**
 * Everything that may be answered where there are labels, in the spellings of a model, and how likely it is; what
 * {@link answer} gives at temperature 0 for the same `random` comes first. `null` for all other prompts.
 */
export function possibleAnswers(reading: Reading, random: () => number): readonly Possibility[] | null {
  const { prompt, spec, subject } = reading;
  if (spec.kind !== 'labels') return null;
  return spelled(sharesOf(subject, termsOf(spec.labels, reading), random), leadFor(prompt));
}

function contentOf(reading: Reading, random: () => number, temperature: number): string {
  const { prompt, spec, instruction, subject } = reading;
  switch (spec.kind) {
    case 'json': {
      const json = jsonAnswer(reading, spec.schema, random, temperature);
      // A prompt may begin the object itself.
      return prompt.trimEnd().endsWith('{') ? json.slice(1) : json;
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

/** Completions begin with a space after a cue, and with an empty line after a prompt that ends in a sentence. */
function leadFor(prompt: string): string {
  if (/\s$|[{["]$/.test(prompt)) return '';
  return prompt.endsWith(':') ? ' ' : '\n\n';
}

const SENTENCES = [
  'There are a few things to say about $.',
  'When it comes to $, the details matter, and so does the time available.',
  'It is worth comparing a few options before deciding about $.',
  'A small trial usually shows more of $ than a long discussion.',
  'With $ it helps to start simple and to add only what proves necessary.',
];

/** Two to four sentences about whatever the prompt is about. */
function sentencesAbout(prompt: string, random: () => number): string {
  const words = wordsOf(prompt.slice(-2_000)).filter(({ length }) => length > 5);
  const topic = words[Math.floor(random() * words.length)] ?? 'this';
  const first = Math.floor(random() * SENTENCES.length);
  const count = 2 + Math.floor(random() * 3);
  const chosen = [...SENTENCES, ...SENTENCES].slice(first, first + count);
  return chosen.join(' ').replaceAll('$', () => topic);
}
