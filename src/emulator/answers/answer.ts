import { jsonAnswer } from './json.js';
import { wantsJson } from './keys.js';
import { choose, labelsIn, sharesOf, type Term, term } from './labels.js';
import { type Possibility, spelled } from './possible.js';
import { type PromptParts, partsOf, summaryOf, wordsOf } from './reading.js';

/** Characters; 4,097 tokens of English are about 16,000. */
const LONGEST_READ = 24_000;

/** What a prompt that asks for the sentiment without offering labels is answered with. */
const SENTIMENTS = ['Positive', 'Negative', 'Neutral'].map((name) => term(name));

/**
 * What stands in for the text of a model: a label, JSON, a summary or some sentences, with the whitespace that
 * completions begin with. A function of its arguments; `random` decides what the prompt leaves open.
 */
export function answer(prompt: string, random: () => number, temperature: number): string {
  const parts = partsRead(prompt);
  const wanted = wantedBy(parts);
  return leadFor(prompt) + contentOf(prompt, parts, wanted, random, temperature);
}

/**
 * Everything that may be answered to a prompt that offers labels, in the spellings of a model, and how likely it is; what
 * {@link answer} gives at temperature 0 for the same `random` comes first. `null` for all other prompts.
 */
export function possibleAnswers(prompt: string, random: () => number): readonly Possibility[] | null {
  const parts = partsRead(prompt);
  const wanted = wantedBy(parts);
  if (wanted.kind !== 'label') return null;
  return spelled(sharesOf(parts.subject, wanted.labels, random), leadFor(prompt));
}

/** A prompt's parts; of one that is longer than prose of a context window can be, of its beginning and end: reading is not linear. */
export function partsRead(prompt: string): PromptParts {
  const half = LONGEST_READ / 2;
  return partsOf(prompt.length <= LONGEST_READ ? prompt : prompt.slice(0, half) + prompt.slice(-half));
}

/** What a prompt wants. */
type Wanted =
  | { readonly kind: 'json' | 'summary' | 'prose' }
  | { readonly kind: 'label'; readonly labels: readonly Term[] };

export function wantedBy(parts: PromptParts): Wanted {
  if (wantsJson(parts)) return { kind: 'json' };
  const labels = labelsIn(parts);
  if (labels.length > 0) return { kind: 'label', labels };
  if (/sentiment/i.test(parts.instruction)) return { kind: 'label', labels: SENTIMENTS };
  return { kind: /summar|tl;?dr/i.test(parts.instruction) ? 'summary' : 'prose' };
}

function contentOf(
  prompt: string,
  parts: PromptParts,
  wanted: Wanted,
  random: () => number,
  temperature: number,
): string {
  switch (wanted.kind) {
    case 'json': {
      const json = jsonAnswer(parts, random, temperature);
      // A prompt may begin the object itself.
      return prompt.trimEnd().endsWith('{') ? json.slice(1) : json;
    }
    case 'label':
      return choose(parts.subject, wanted.labels, random, temperature);
    case 'summary':
      return summaryOf(parts.subject);
    case 'prose':
      return sentencesAbout(prompt, random);
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
