import { pick } from '../random.js';
import { wordsOf } from './language.js';

/** Most words of a summary. */
const SUMMARY_WORDS = 30;

/** A text's first sentence, with an end. */
export function summaryOf(text: string): string {
  const plain = text.replace(/\s+/g, ' ').trim();
  const sentence = /^.{15,}?[.!?](?=\s|$)/.exec(plain)?.[0] ?? plain;
  const words = sentence.split(' ');
  if (words.length <= SUMMARY_WORDS) return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
  return `${words.slice(0, SUMMARY_WORDS).join(' ')}…`;
}

type Sentences = readonly [string, ...string[]];

const OPENINGS: Sentences = [
  'There are a few things to say about $.',
  'When it comes to $, the details matter.',
  'The short answer is that $ depends on what you need.',
  'Most people who ask about $ want the same three things.',
];
const MIDDLES: Sentences = [
  'First, it helps to be clear about the goal.',
  'It is worth comparing a few options before deciding.',
  'A small trial usually shows more than a long discussion.',
  'The context makes a difference, and so does the time available.',
  'Experience suggests starting simple and adding only what proves necessary.',
];
const ENDINGS: Sentences = [
  'In the end, a clear and simple approach works best.',
  'That is usually enough to get started.',
  'Once this is in place, the rest tends to follow.',
];

/** A few plausible sentences about whatever the prompt is about. */
export function continuationOf(prompt: string, random: () => number): string {
  const [longest = 'this', ...others] = wordsOf(prompt.slice(-2_000))
    .filter((word) => word.length > 5)
    .sort((a, b) => b.length - a.length)
    .slice(0, 3);
  const topic = pick(random, [longest, ...others]);
  const middles = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(random, MIDDLES));
  const opening = pick(random, OPENINGS).replace('$', () => topic);
  return [opening, ...new Set(middles), pick(random, ENDINGS)].join(' ');
}
