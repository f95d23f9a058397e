import { isObject } from '../core/json.js';
import type { Confidence, Json } from '../core/model.js';
import type { Names } from './label-index.js';
import { composed } from './text.js';

/** Tokens searched for the label: words such as "Sentiment:" may come first. */
const MOST_TOKENS = 50;

/** Prefix of a word in its token, or markup around it. */
const BEFORE = /^[\s"'“‘`*_([{]+/u;

interface Form {
  readonly text: string;
  readonly label: number;
}

/**
 * Reads from log probabilities how sure the model is of each label.
 *
 * The label's first token decides, because the rest is nearly certain. Each likely token in its place counts
 * for the label that it begins, in any case, with or without a space. Tokens that begin no label are left
 * out. The others are scaled to add up to one, along with the unlisted rest, which may be any label.
 * @param labels the names of each label: itself, then its synonyms
 * @returns null when the label is not among the tokens, or its first token begins another label, too
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

const isWord = (text: string, name: string): boolean =>
  text.startsWith(name) && !LETTER_OR_DIGIT.test(text.charAt(name.length));

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;

const NONE = -1;
const SEVERAL = -2;

/** The label that a token begins; a whole name wins over longer ones. */
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
 * Two labels that begin with the same token of the model's tokenizer, or null.
 * @param firstToken the first token of a text, as text
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
        // A space may be a token of its own; the next form decides.
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

/** White space, `_` and `-` are equivalent. */
const folded = (text: string): string =>
  composed(text)
    .toLowerCase()
    .replace(BEFORE, '')
    .trimEnd()
    .replace(/[\s_-]+/gu, ' ');

const rounded = (probability: number): number => Math.round(probability * 1e6) / 1e6;

/** `likeliest`: in the token's place, including itself, with probabilities 0 to 1. */
interface TokenChoice {
  readonly token: string;
  readonly likeliest: ReadonlyMap<string, number>;
}

/** Accepts the form of completions (parallel arrays) and of chat servers (a list of objects). */
function tokenChoices(logprobs: Json | undefined, most: number): readonly TokenChoice[] {
  if (!isObject(logprobs)) return [];
  const { tokens, token_logprobs: own, top_logprobs: tops, content } = logprobs;
  if (isList(content)) {
    return content.slice(0, most).flatMap((each) => {
      const { token, logprob, top_logprobs: top } = isObject(each) ? each : {};
      const others = isList(top) ? top.filter((each) => isObject(each)) : [];
      return choice(
        token,
        logprob,
        others.map((other): [unknown, unknown] => [other['token'], other['logprob']]),
      );
    });
  }
  if (!isList(tokens) || !isList(own) || !isList(tops)) return [];
  return tokens.slice(0, most).flatMap((token, i) => {
    const top = tops[i];
    return choice(token, own[i], isObject(top) ? Object.entries(top) : []);
  });
}

function choice(token: unknown, own: unknown, top: readonly (readonly [unknown, unknown])[]): TokenChoice[] {
  if (typeof token !== 'string') return [];
  const likeliest = new Map<string, number>();
  for (const [other, logprob] of [[token, own] as const, ...top])
    if (typeof other === 'string' && typeof logprob === 'number')
      likeliest.set(other, Math.exp(Math.min(0, logprob)));
  return likeliest.size === 0 ? [] : [{ token, likeliest }];
}

const isList = (value: unknown): value is readonly Json[] => Array.isArray(value);
