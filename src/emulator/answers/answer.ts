import { classify } from './classify.js';
import { jsonAnswer } from './json-answer.js';
import { labelsIn, withoutMeaning } from './labels.js';
import { type PromptParts, partsOf } from './prompt-parts.js';
import { continuationOf, summaryOf } from './prose.js';
import { ratingOf, ratingScale } from './rating.js';

/** Characters; 4,097 tokens of English are about 16,000. */
const LONGEST_READ = 24_000;

/** What a prompt that asks for the sentiment without offering labels is answered with. */
const SENTIMENTS = ['Positive', 'Negative', 'Neutral'].map(withoutMeaning);

/**
 * What the model would write after a prompt: a label, JSON, a summary or a continuation, with the whitespace
 * that completions begin with. A function of its arguments; `random` decides what the prompt leaves open.
 */
export function answer(prompt: string, random: () => number): string {
  const parts = partsOf(readable(prompt));
  return leadFor(prompt) + contentOf(prompt, parts, random);
}

/**
 * Beginning and end of a prompt that is longer than prose of a context window can be (a run of blanks, say):
 * reading takes more than linear time.
 */
function readable(prompt: string): string {
  return prompt.length <= LONGEST_READ
    ? prompt
    : prompt.slice(0, LONGEST_READ / 2) + prompt.slice(-LONGEST_READ / 2);
}

function contentOf(prompt: string, parts: PromptParts, random: () => number): string {
  const { instruction, subject, examples } = parts;
  if (/\bjson\b/i.test(instruction) || /\{\s*"[\w -]+"\s*:/.test(instruction + examples.join('\n'))) {
    const json = jsonAnswer(parts, random);
    // A prompt may begin the object itself.
    return prompt.trimEnd().endsWith('{') ? json.slice(1) : json;
  }
  const scale = ratingScale(instruction);
  if (scale) return String(ratingOf(subject, scale));

  const labels = labelsIn(parts);
  if (labels.length > 0) return classify(subject, labels, instruction, random);
  if (/sentiment|stimmung|tonalität|sentimento|sentimiento/i.test(instruction)) {
    return classify(subject, SENTIMENTS, instruction, random);
  }
  if (/summar|tl;?dr|zusammenfass|résum|resum|riassu|samenvat/i.test(instruction)) {
    return summaryOf(subject);
  }
  return continuationOf(prompt, random);
}

/** Completions begin with a space after a cue, and with an empty line after a prompt that ends in a sentence. */
function leadFor(prompt: string): string {
  if (/\s$|[{["]$/.test(prompt)) return '';
  return prompt.endsWith(':') ? ' ' : '\n\n';
}
