import { jsonAnswer } from './json.js';
import { wantsJson } from './keys.js';
import { choose, labelsIn } from './labels.js';
import { type PromptParts, partsOf, summaryOf, wordsOf } from './reading.js';

/** Characters; 4,097 tokens of English are about 16,000. */
const LONGEST_READ = 24_000;

/** What a prompt that asks for the sentiment without offering labels is answered with. */
const SENTIMENTS = ['Positive', 'Negative', 'Neutral'].map((name) => ({ name, meaning: '' }));

/**
 * What stands in for the text of a model: a label, JSON, a summary or some sentences, with the whitespace that
 * completions begin with. A function of its arguments; `random` decides what the prompt leaves open.
 */
export function answer(prompt: string, random: () => number): string {
  // Beginning and end of a prompt that is longer than prose of a context window can be: reading is not linear.
  const half = LONGEST_READ / 2;
  const read = prompt.length <= LONGEST_READ ? prompt : prompt.slice(0, half) + prompt.slice(-half);
  return leadFor(prompt) + contentOf(prompt, partsOf(read), random);
}

function contentOf(prompt: string, parts: PromptParts, random: () => number): string {
  const { instruction, subject } = parts;
  if (wantsJson(parts)) {
    const json = jsonAnswer(parts, random);
    // A prompt may begin the object itself.
    return prompt.trimEnd().endsWith('{') ? json.slice(1) : json;
  }
  const labels = labelsIn(parts);
  if (labels.length > 0) return choose(subject, labels, random);
  if (/sentiment/i.test(instruction)) return choose(subject, SENTIMENTS, random);
  return /summar|tl;?dr/i.test(instruction) ? summaryOf(subject) : sentencesAbout(prompt, random);
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
