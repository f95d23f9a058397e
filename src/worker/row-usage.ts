import { mostBilled, plus } from '../budget/budget.js';
import type { CalledOutcome, Completion, Parameters, Usage } from '../model.js';
import { estimateTokens } from '../prompt/context.js';
import { loadTokenizer } from '../prompt/tokens.js';
import type { ChunkRow } from '../queue/chunk.js';
import { type Model, modelBehind } from '../service/catalogue.js';
import type { Deployed, EndpointSpec } from '../service/endpoint-spec.js';
import { candidatesOf } from '../service/parameters.js';
import type { Final, Verdict } from '../service/verdict.js';
import { AROUND, TokenRatio } from './token-ratio.js';

/** What of an endpoint decides how its counts are read. */
type Asked = Deployed & Partial<Pick<EndpointSpec, 'style'>>;

/**
 * Gives the rows of a request their usage. Rows that shared it were read with the usage of all of it: each gets its part,
 * by the tokens of its own prompt and answer, unless the service said it of each. Where it sent no counts, such as cannot be (fault
 * 77), or of several prompts or choices far too few, each row gets those that we count. Exact where the model's tokenizer is known.
 * @param parameters those of the request
 * @param ratio what the counts of the server say of its tokenizer; learns from these
 */
export function withRowUsage(
  verdicts: readonly Verdict[],
  rows: readonly ChunkRow[],
  parameters: Parameters,
  deployed: Asked,
  ratio = new TokenRatio(),
): readonly Verdict[] {
  if (rows.length > 1 && verdicts.some((verdict) => verdict.kind === 'final' && verdict.ownUsage)) {
    return rows.flatMap((row, i) =>
      withRowUsage(verdicts.slice(i, i + 1), [row], parameters, deployed, ratio),
    );
  }
  const model = modelBehind(deployed);
  const completions = verdicts.map(completionOf);
  const said = completions.map((completion) => completion?.usage ?? null).find((usage) => usage !== null);
  const odd =
    verdicts.some((verdict) => verdict.kind === 'final' && verdict.oddUsage !== undefined) ||
    (said !== undefined && !isPossible(said, rows, parameters, completions));
  if (!odd && said === undefined) return verdicts;
  const request: Request = { parameters, model, style: deployed.style };
  const missing = odd || said === undefined ? NONE : missingFrom(said, rows, completions, request);
  const isShort = missing.prompts !== 'all' || missing.texts;
  if (!odd && !isShort && rows.length === 1)
    return parameters.suffix
      ? verdicts
      : verdicts.map((verdict) => markedIfCut(verdict, rows[0], deployed, model, ratio));

  const prompts = rows.map(({ prompt }) => prompt);
  if (!odd && said !== undefined && model === null && !parameters.suffix && missing.prompts !== 'unknown')
    ratio.saw(missing.prompts === 'first' ? (prompts[0] ?? '') : prompts.join(''), said.prompt_tokens);
  const count =
    model === null
      ? (text: string) => ratio.likely(text) ?? estimateTokens(text)
      : loadTokenizer(model.encoding).count;
  if (!odd && !isShort && said !== undefined) {
    const own = rows.map(({ prompt }, i) => ({
      prompt: count(prompt),
      completion: sumOf(textsOf(completions[i] ?? null), count),
    }));
    const shares = shareUsage(said, own);
    return verdicts.map((verdict, i) => withUsage(verdict, shares[i] ?? said));
  }
  const behind = parameters.suffix ? count(parameters.suffix) : 0;
  // Where only the texts are counted wrong, the prompts are believed.
  const saidPrompts =
    odd || said === undefined || missing.prompts !== 'all'
      ? null
      : shares(said.prompt_tokens, prompts.map(count));
  return verdicts.map((verdict, i): Verdict => {
    const prompt = rows[i]?.prompt ?? '';
    const most = mostBilled(count(prompt) + behind, parameters);
    const texts = textsOf(completions[i] ?? null);
    const generated = texts.map((text) =>
      parameters.echo && text.startsWith(prompt) ? text.slice(prompt.length) : text,
    );
    const counted = Math.ceil(sumOf(generated, count) * candidatesPerText(texts, parameters));
    const completion_tokens = Math.min(counted, most.completion_tokens);
    // Of a prompt that is alone only the choices are counted wrong.
    const prompt_tokens = saidPrompts?.[i] ?? most.prompt_tokens;
    const total_tokens = prompt_tokens + completion_tokens;
    const usage = { prompt_tokens, completion_tokens, total_tokens, estimated: true } as const;
    return withUsage(verdict, usage, {
      ...(model === null
        ? {
            oddUsage: 'guessed',
            mostUsage: {
              prompt_tokens: ratio.most(prompt) + (parameters.suffix ? ratio.most(parameters.suffix) : 0),
              completion_tokens: mostGenerated(completions[i] ?? null, generated, parameters),
            },
          }
        : { oddUsage: 'counted' }),
      ...(isShort && { notice: 'short_usage' }),
    });
  });
}

/** The most tokens that texts have, which one of several candidates shows; one that was cut has as many as it may have. */
function mostGenerated(
  completion: Completion | null,
  texts: readonly string[],
  parameters: Parameters,
): number {
  const ends = [completion?.finish_reason, ...(completion?.others ?? []).map((other) => other.finish_reason)];
  if (ends.some((end) => end !== 'stop')) return Number.POSITIVE_INFINITY;
  // No token has less than a byte. What ends a text is not in it.
  const end = Math.max(0, ...[parameters.stop ?? []].flat().map((stop) => Buffer.byteLength(stop))) + AROUND;
  const bytes = sumOf(texts, (text) => Buffer.byteLength(text) + end);
  return Math.ceil(bytes * candidatesPerText(texts, parameters));
}

/** Less than this share of our own exact count is another count, whatever a template adds or a special token is. */
const WELL_BELOW = 0.75;
/**
 * Characters for each token that no ordinary text reaches with any tokenizer, where one of Chinese, Japanese or Korean counts as
 * three. Vocabularies of 200,000 tokens have some 5 of English, 4 of Russian, 3.5 of Hindi, and 5 of Chinese or Japanese so counted.
 */
const LONGEST_TOKENS = 7;
/** A run of characters without a space that is longer is no single token. */
const LONGEST_WORD = 20;
/** Above so many for each token, a text is worth an exact count. */
const LONG_TOKENS = 5;

/** How a request was made, and of which model. */
interface Request {
  readonly style: Asked['style'] | undefined;
  readonly parameters: Parameters;
  /** Null where it is not known. */
  readonly model: Model | null;
}

/** What counts leave out. */
interface Missing {
  /** Which prompts are counted; `unknown` where the texts alone show that not all are. */
  readonly prompts: 'all' | 'first' | 'unknown';
  readonly texts: boolean;
}
const NONE: Missing = { prompts: 'all', texts: false };

/** What is counted far too low: some servers count the first prompt of several, and the first choice, as llama.cpp does. */
function missingFrom(
  { prompt_tokens, completion_tokens }: Usage,
  rows: readonly ChunkRow[],
  completions: readonly (Completion | null)[],
  { parameters, model, style }: Request,
): Missing {
  const texts = writtenIn(completions);
  const several = rows.length > 1;
  const isOpenai = style === 'openai';
  // With `echo` a text may be the prompt alone, of which nothing was generated.
  const isLess = !parameters.echo && completion_tokens < texts.length;
  // The hosted service counts every prompt, whatever its deployments are named.
  const mayMiss = several && (isOpenai || model !== null);
  // Who counts fewer tokens than there are texts counts the first alone, and of the prompts as well.
  const isFirstAlone = several && isOpenai && isLess;
  const mayMissTexts = isOpenai && texts.length > 1 && !parameters.echo;
  return {
    prompts:
      mayMiss && isFarBelow(prompt_tokens, rows.map(promptOf), model)
        ? 'first'
        : isFirstAlone
          ? 'unknown'
          : 'all',
    texts:
      (isLess && (several || mayMissTexts)) || (mayMissTexts && isFarBelow(completion_tokens, texts, model)),
  };
}

const promptOf = ({ prompt }: ChunkRow): string => prompt;

/** Whether so many tokens are plainly too few for the texts. Where the tokenizer is not known, only fewer than any would make are. */
const isFarBelow = (tokens: number, texts: readonly string[], model: Model | null): boolean =>
  model === null
    ? tokens < sumOf(texts, fewestTokens)
    : tokens < WELL_BELOW * sumOf(texts, loadTokenizer(model.encoding).count);

/** The texts that have anything in them. */
const writtenIn = (completions: readonly (Completion | null)[]): readonly string[] =>
  completions.flatMap(textsOf).filter((text) => text !== '');

const EAST_ASIAN = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu;
/** Each character of Chinese, Japanese and Korean is a word here. */
const WORDS =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]|[^\s\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]+/gu;

/** The fewest that any tokenizer makes of a text. A word may be one token, as ` positive` is; a run without spaces is longer than words are. */
function fewestTokens(text: string): number {
  const plain = withoutRepeats(text);
  const words = sumOf(plain.match(WORDS) ?? [], (word) => Math.max(1, word.length / LONGEST_WORD));
  return Math.min(words, plain.replace(EAST_ASIAN, '   ').length / LONGEST_TOKENS);
}

/** The text with repeated characters once: a hundred spaces, or the rule of a table, may be one token. */
const withoutRepeats = (text: string): string => text.replace(/\s+|(.)\1+/gs, ' ');

/** A prompt of which the server counts less than this share of what its counts for others lead to expect was not read whole. */
const FAR_FROM_OTHERS = 0.7;
/** Tokens below which a prompt fits any context, and its count may well be odd. */
const SHORT_PROMPT = 100;

/**
 * Marks the answer to a prompt of which the server has read a part only: some cut what is too long and answer all the same. The
 * hosted service refuses it.
 */
function markedIfCut(
  verdict: Verdict,
  row: ChunkRow | undefined,
  { style }: Asked,
  model: Model | null,
  ratio: TokenRatio,
): Verdict {
  const completion = completionOf(verdict);
  if (style !== 'openai' || row === undefined || verdict.kind !== 'final') return verdict;
  const read = completion?.usage?.prompt_tokens ?? 0;
  if (completion === null || read === 0) return verdict;
  if (!isCut(read, row.prompt, model, ratio)) {
    ratio.saw(row.prompt, read);
    return verdict;
  }
  const marked: Completion = { ...completion, damaged: completion.damaged ?? 'prompt' };
  return {
    ...verdict,
    outcome: { ...verdict.outcome, completion: marked } as CalledOutcome,
    notice: 'prompt_cut',
  };
}

function isCut(read: number, prompt: string, model: Model | null, ratio: TokenRatio): boolean {
  // The server may have another tokenizer than the model that the job names, so its own counts say more.
  const likely = ratio.likely(prompt);
  if (likely !== null) {
    const isFew = (tokens: number): boolean => tokens >= SHORT_PROMPT && read < FAR_FROM_OTHERS * tokens;
    return isFew(likely) && isFew(ratio.likely(withoutRepeats(prompt)) ?? 0);
  }
  if (model === null || read * LONG_TOKENS >= prompt.length) return false;
  return read < WELL_BELOW * loadTokenizer(model.encoding).count(prompt);
}

/**
 * Tokens for each row by which a service may differ from us without a doubt: templates that it puts around a prompt, a
 * default of `max_tokens` that is its own. A service that bills within it is believed.
 */
const SLACK = 10_000;

/** Whether the counts can be what was billed, by a wide margin; nobody bills 2^53−1 tokens for a short text. */
function isPossible(
  { prompt_tokens, completion_tokens, total_tokens }: Usage,
  rows: readonly ChunkRow[],
  parameters: Parameters,
  completions: readonly (Completion | null)[],
): boolean {
  const nothing = prompt_tokens === 0 && completion_tokens === 0;
  if (nothing && completions.some((completion) => completion?.text)) return false;
  const slack = SLACK * rows.length;
  if (prompt_tokens + completion_tokens + total_tokens <= slack) return true;
  const behind = Buffer.byteLength(parameters.suffix ?? '');
  const most = rows
    // No token is shorter than a byte.
    .map(({ prompt }) => mostBilled(Buffer.byteLength(prompt) + behind, parameters))
    .reduce(plus);
  const bytes = completions.map((completion) => {
    const texts = textsOf(completion);
    return sumOf(texts, Buffer.byteLength) * candidatesPerText(texts, parameters);
  });
  const generated = Math.max(
    most.completion_tokens,
    bytes.reduce((a, b) => a + b),
  );
  return (
    prompt_tokens <= 2 * most.prompt_tokens + slack &&
    completion_tokens <= 2 * generated + slack &&
    total_tokens <= 2 * (prompt_tokens + completion_tokens) + slack
  );
}

/** The texts of all choices of a row. */
const textsOf = (completion: Completion | null): readonly string[] => [
  completion?.text ?? '',
  ...(completion?.others ?? []).map(({ text }) => text),
];

const sumOf = (texts: readonly string[], size: (text: string) => number): number =>
  texts.reduce((sum, text) => sum + size(text), 0);

/** Candidates for each text that is seen: `best_of` shows one of several, and a filter may take others. */
const candidatesPerText = (texts: readonly string[], parameters: Parameters): number =>
  candidatesOf(parameters) / texts.length;

export const completionOf = (verdict: Verdict): Completion | null =>
  verdict.kind === 'final' && verdict.outcome.status !== 'failed' ? verdict.outcome.completion : null;

function withUsage(
  verdict: Verdict,
  usage: Usage,
  more: Pick<Final, 'oddUsage' | 'mostUsage' | 'notice'> = {},
): Verdict {
  const completion = completionOf(verdict);
  if (verdict.kind !== 'final' || completion === null) return verdict;
  const outcome: CalledOutcome = {
    ...verdict.outcome,
    completion: { ...completion, usage },
  } as CalledOutcome;
  return { kind: 'final', outcome, ...more };
}

/** What one row of a shared request has itself, in tokens of its own count. */
interface OwnTokens {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * Shares the usage of one request out to its rows, in proportion to the tokens they count themselves. The shares
 * are whole numbers and add up to what was billed.
 */
export function shareUsage(billed: Usage, own: readonly OwnTokens[]): Usage[] {
  const prompts = shares(
    billed.prompt_tokens,
    own.map(({ prompt }) => prompt),
  );
  const completions = shares(
    billed.completion_tokens,
    own.map(({ completion }) => completion),
  );
  return own.map((_, i) => {
    const prompt_tokens = prompts[i] ?? 0;
    const completion_tokens = completions[i] ?? 0;
    return {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      estimated: true,
    };
  });
}

/** Whole shares of a total by weight: each row gets what lies between its marks on the line from 0 to the total. */
function shares(total: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  let passed = 0;
  let given = 0;
  return weights.map((weight, i) => {
    passed += sum > 0 ? weight / sum : 1 / weights.length;
    const mark = i === weights.length - 1 ? total : Math.round(total * passed);
    const share = mark - given;
    given = mark;
    return share;
  });
}
