/** The service's log probabilities: parallel arrays with one entry for each token. */
export interface Logprobs {
  readonly tokens: readonly string[];
  /** `null` for the first token of an echoed prompt: nothing precedes it. */
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly ({ readonly [token: string]: number } | null)[];
  /** Where each token begins, in characters from the beginning of the prompt. */
  readonly text_offset: readonly number[];
}

/** Tokens that stand for what else might have been written. */
const OTHERS = [' the', ' a', '\n', ',', ' and', ' not'] as const;

/** Share of tokens above temperature 0 that are not the most likely one. */
const SURPRISES = 0.1;

/**
 * Makes up plausible log probabilities.
 * @param tokens the text, token by token
 * @param top how many of the most likely tokens are listed; a token that is not among them is listed as well
 * @param from what precedes the first token; `null` when nothing does
 * @param certain whether every token is the most likely one, as at temperature 0
 */
export function logprobsOf(
  tokens: readonly string[],
  top: number,
  from: string | null,
  certain: boolean,
  random: () => number,
): Logprobs {
  const offsets: number[] = [];
  let offset = from === null ? 0 : charactersIn(from);
  const drawn = tokens.map((token, index) => {
    offsets.push(offset);
    offset += charactersIn(token);
    return index === 0 && from === null ? null : draw(token, top, certain, random);
  });
  return {
    tokens,
    token_logprobs: drawn.map((entry) => entry?.logprob ?? null),
    top_logprobs: drawn.map((entry) => entry?.top ?? null),
    text_offset: offsets,
  };
}

/** The entries from one token up to another. */
export function sliceOf(logprobs: Logprobs, from: number, to: number): Logprobs {
  return {
    tokens: logprobs.tokens.slice(from, to),
    token_logprobs: logprobs.token_logprobs.slice(from, to),
    top_logprobs: logprobs.top_logprobs.slice(from, to),
    text_offset: logprobs.text_offset.slice(from, to),
  };
}

function draw(token: string, top: number, certain: boolean, random: () => number) {
  const isSurprise = random() < SURPRISES && !certain;
  const likeliest = 0.55 + 0.45 * random();
  const others = OTHERS.filter((other) => other !== token);
  const ranking = isSurprise ? [...others, token] : [token, ...others];
  // Each rank gets half of what the one before it got, out of what the likeliest leaves.
  const logprobAt = (rank: number): number =>
    logarithm(rank === 0 ? likeliest : (1 - likeliest) * 0.5 ** rank);
  const listed = ranking
    .map((name, rank): [string, number] => [name, logprobAt(rank)])
    .filter(([name], rank) => rank < top || name === token);
  return { logprob: logprobAt(ranking.indexOf(token)), top: Object.fromEntries(listed) };
}

const logarithm = (probability: number): number => Math.round(Math.log(probability) * 1e8) / 1e8;

const charactersIn = (text: string): number => [...text].length;
