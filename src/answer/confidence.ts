import type { Confidence, Json } from '../model.js';
import type { Names } from './label-index.js';
import { composed } from './text.js';
import { type TokenChoice, tokenChoices } from './token-probabilities.js';

/** Tokens in which the label is looked for: words may stand before it, such as "Sentiment:". */
const MOST_TOKENS = 50;

/** What stands before a word in its token, or around it as markup. */
const BEFORE = /^[\s"'“‘`*_([{]+/u;

/** A name as tokens are compared with it. */
interface Form {
  readonly text: string;
  readonly label: number;
}

/**
 * Reads from log probabilities how sure the model is of each label.
 *
 * The token with which the label begins decides, because what follows it is nearly certain. Every likely token in its
 * place counts for the label that it begins, in any case, with or without a blank before it. A token that begins no label
 * is left out, and the probabilities of the others are made to add up to one with what is left for tokens that are not
 * listed: any label may be among those.
 *
 * @param labels the names of each label: itself, then its synonyms
 * @returns null where the label is not found among the tokens, or its first token begins another as well
 */
export function confidenceReader(
  labels: readonly Names[],
): (logprobs: Json | undefined, label: string) => Confidence | null {
  const forms = labels
    .flatMap((names, label): Form[] => names.map((name) => ({ text: folded(name), label })))
    .sort((a, b) => (a.text < b.text ? -1 : 1));
  const named = labels.map((names) => names.map(folded));
  const places = new Map(labels.map(([name = ''], place) => [name, place]));

  return (logprobs, label) => {
    const answered = places.get(label) ?? NONE;
    const choices = tokenChoices(logprobs, MOST_TOKENS);
    for (const [i, at] of choices.entries()) {
      if (labelBegunBy(forms, at.token) !== answered) continue;
      const text = folded(
        choices
          .slice(i)
          .map(({ token }) => token)
          .join(''),
      );
      if (named[answered]?.some((name) => isWord(text, name))) return confidenceAt(at);
    }
    return null;

    function confidenceAt({ likeliest }: TokenChoice): Confidence | null {
      const sums = new Map<string, number>();
      let unlisted = 1;
      for (const [token, probability] of likeliest) {
        const begun = labelBegunBy(forms, token);
        if (begun !== SEVERAL) unlisted -= probability;
        if (begun === NONE || begun === SEVERAL) continue;
        const name = labels[begun]?.[0] ?? '';
        sums.set(name, (sums.get(name) ?? 0) + probability);
      }
      const total = [...sums.values()].reduce((a, b) => a + b, Math.max(0, unlisted));
      if (!(total > 0)) return null;
      const probabilities = new Map([...sums].map(([name, sum]) => [name, rounded(sum / total)]));
      return { value: probabilities.get(label) ?? 0, probabilities };
    }
  };
}

/** Whether a text begins with a name, as a word of its own. */
const isWord = (text: string, name: string): boolean =>
  text.startsWith(name) && !LETTER_OR_DIGIT.test(text.charAt(name.length));

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;

/** What a token begins that is the beginning of no label, or of more than one. */
const NONE = -1;
const SEVERAL = -2;

/** The label that a token begins, alone. One that is the whole of a name counts for it. */
function labelBegunBy(forms: readonly Form[], token: string): number {
  const begin = folded(token);
  if (begin === '') return NONE;
  let [from, to] = [0, forms.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((forms[middle]?.text ?? '') < begin) from = middle + 1;
    else to = middle;
  }
  const first = forms[from];
  if (!first?.text.startsWith(begin)) return NONE;
  if (first.text === begin) return first.label;
  for (let at = from + 1; forms[at]?.text.startsWith(begin); at++)
    if (forms[at]?.label !== first.label) return SEVERAL;
  return first.label;
}

/**
 * Labels that cannot be told apart by the tokens with which they begin, as the tokenizer of the model has them.
 * @param firstToken the text of a text's first token
 * @returns two of them and the token, or null when all can be told apart
 */
export function sameBeginning(
  labels: readonly Names[],
  firstToken: (text: string) => string,
): { readonly names: readonly [string, string]; readonly token: string } | null {
  const begun = new Map<string, { readonly name: string; readonly label: number }>();
  for (const [label, names] of labels.entries()) {
    for (const name of names) {
      for (const form of [name, capital(name)].flatMap((each) => [each, ` ${each}`])) {
        const token = folded(firstToken(form));
        // A blank may be a token of its own; the next one decides.
        if (token === '') continue;
        const before = begun.get(token);
        if (before !== undefined && before.label !== label) return { names: [before.name, name], token };
        begun.set(token, { name, label });
      }
    }
  }
  return null;
}

const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

/** White space, `_` and `-` inside a name stand for each other. */
const folded = (text: string): string =>
  composed(text)
    .toLowerCase()
    .replace(BEFORE, '')
    .trimEnd()
    .replace(/[\s_-]+/gu, ' ');

const rounded = (probability: number): number => Math.round(probability * 1e6) / 1e6;
