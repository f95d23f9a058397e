/** The service's log probabilities: parallel arrays with one entry per token. */
export interface Logprobs {
  readonly tokens: readonly string[];
  /** `null` for the first token of an echoed prompt: nothing precedes it. */
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly ({ readonly [token: string]: number } | null)[];
  /** Where each token begins, in characters from the start of the prompt. */
  readonly text_offset: readonly number[];
}

/** Stand-ins for tokens that might have been written instead. */
const OTHERS = [' the', ' a', '\n', ',', ' and', ' not'] as const;

/** Share of tokens above temperature 0 that are not the most likely one. */
const SURPRISES = 0.1;

/** Total probability of tokens that continue none of the possible answers. */
const UNFORESEEN = 0.001;

export interface PossiblePieces {
  readonly pieces: readonly string[];
  readonly share: number;
}

type NextTokens = ReadonlyMap<string, number>;

/**
 * The probability of each next token, at each position of a text: the combined shares of the possible answers
 * that begin like it. Ends at the first position where none of them continues like the text.
 */
export function sharesAlong(tokens: readonly string[], possible: readonly PossiblePieces[]): NextTokens[] {
  const along: NextTokens[] = [];
  let alike = possible;
  for (const [place, token] of tokens.entries()) {
    const total = alike.reduce((sum, { share }) => sum + share, 0);
    const next = new Map<string, number>();
    for (const { pieces, share } of alike) {
      const piece = pieces[place];
      // An answer that ends here puts its share on the end, which is no token and is not listed.
      if (piece !== undefined) next.set(piece, (next.get(piece) ?? 0) + share / total);
    }
    if (!next.has(token)) break;
    along.push(next);
    alike = alike.filter(({ pieces }) => pieces[place] === token);
  }
  return along;
}

/**
 * The log probabilities of a text; made up where the token probabilities are unknown.
 * @param known from {@link sharesAlong}, by token position; `null` or absent where unknown
 * @param top how many of the most likely tokens are listed; the actual token is always listed too
 * @param from what precedes the first token; `null` when nothing does
 * @param certain whether every token is the most likely one, as at temperature 0
 */
export function logprobsOf(
  tokens: readonly string[],
  known: readonly (NextTokens | null)[],
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
    if (index === 0 && from === null) return null;
    const next = known[index] ?? null;
    return listed(token, top, next === null ? madeUp(token, certain, random) : ranked(next));
  });
  return {
    tokens,
    token_logprobs: drawn.map((entry) => entry?.logprob ?? null),
    top_logprobs: drawn.map((entry) => entry?.top ?? null),
    text_offset: offsets,
  };
}

/** Those of one token; `null` behind the last one. */
export function logprobsAt(logprobs: Logprobs | null, step: number): Logprobs | null {
  if (logprobs === null || step >= logprobs.tokens.length) return null;
  return {
    tokens: logprobs.tokens.slice(step, step + 1),
    token_logprobs: logprobs.token_logprobs.slice(step, step + 1),
    top_logprobs: logprobs.top_logprobs.slice(step, step + 1),
    text_offset: logprobs.text_offset.slice(step, step + 1),
  };
}

type Ranking = readonly (readonly [token: string, share: number])[];

function listed(token: string, top: number, ranking: Ranking) {
  const entries = ranking
    .filter(([name], rank) => rank < top || name === token)
    .map(([name, share]): [string, number] => [name, logarithm(share)]);
  const listed = Object.fromEntries(entries);
  return { logprob: listed[token] ?? null, top: listed };
}

function ranked(next: NextTokens): Ranking {
  const others = OTHERS.filter((other) => !next.has(other));
  return [
    ...[...next]
      .map(([token, share]) => [token, (1 - UNFORESEEN) * share] as const)
      .sort(([, a], [, b]) => b - a),
    ...others.map((other, index) => [other, UNFORESEEN * 0.5 ** (index + 1)] as const),
  ];
}

function madeUp(token: string, certain: boolean, random: () => number): Ranking {
  const isSurprise = random() < SURPRISES && !certain;
  const likeliest = 0.55 + 0.45 * random();
  const others = OTHERS.filter((other) => other !== token);
  const ranking = isSurprise ? [...others, token] : [token, ...others];
  // Each rank gets half of the previous one, out of what the most likely token leaves.
  return ranking.map((name, rank) => [name, rank === 0 ? likeliest : (1 - likeliest) * 0.5 ** rank]);
}

const logarithm = (probability: number): number => Math.round(Math.log(probability) * 1e8) / 1e8;

const charactersIn = (text: string): number => [...text].length;
