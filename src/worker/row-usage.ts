import type { CalledOutcome, Completion, Parameters, Usage } from '../core/model.js';
import { mostBilled, plus } from '../pace/budget.js';
import { promptText } from '../prompt/prompt-text.js';
import { estimateTokens, loadTokenizer } from '../prompt/tokens.js';
import type { ChunkRow } from '../queue/chunk.js';
import { type Model, modelBehind } from '../service/catalogue.js';
import type { Deployed, EndpointSpec } from '../service/endpoint-spec.js';
import { operationOf } from '../service/operation.js';
import { candidatesOf } from '../service/parameters.js';
import type { Final, Verdict } from '../service/verdict.js';
import { AROUND, TokenRatio } from './token-ratio.js';

type CalledDeployment = Deployed & Partial<Pick<EndpointSpec, 'style' | 'operation'>>;

/**
 * Gives each row its usage. Rows that share a request carry the usage of all of it; each gets its part, by
 * the tokens of its own prompt and answer, unless the service gave usage for each. Counts that cannot be
 * (fault 77), or far too low for several prompts or choices, are replaced by our own: exact where the model's
 * tokenizer is known.
 * @param parameters of the request
 * @param ratio learns the server's tokenizer from its counts
 */
export function withRowUsage(
  verdicts: readonly Verdict[],
  rows: readonly ChunkRow[],
  parameters: Parameters,
  deployed: CalledDeployment,
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

  const prompts = rows.map(promptOf);
  if (!odd && said !== undefined && model === null && !parameters.suffix && missing.prompts !== 'unknown')
    ratio.saw(missing.prompts === 'first' ? (prompts[0] ?? '') : prompts.join(''), said.prompt_tokens);
  const count =
    model === null
      ? (text: string) => ratio.likely(text) ?? estimateTokens(text)
      : loadTokenizer(model.encoding).count;
  if (!odd && !isShort && said !== undefined) {
    const own = rows.map(({ prompt }, i) => ({
      prompt: count(promptText(prompt)),
      completion: sumOf(textsOf(completions[i] ?? null), count),
    }));
    const shares = shareUsage(said, own);
    return verdicts.map((verdict, i) => withUsage(verdict, shares[i] ?? said));
  }
  const behind = parameters.suffix ? count(parameters.suffix) : 0;
  // When only the texts are miscounted, the prompt counts stand.
  const saidPrompts =
    odd || said === undefined || missing.prompts !== 'all'
      ? null
      : shares(said.prompt_tokens, prompts.map(count));
  const { overhead } = operationOf({ operation: deployed.operation ?? 'completions' });
  return verdicts.map((verdict, i): Verdict => {
    const prompt = prompts[i] ?? '';
    const around = overhead(rows[i]?.prompt ?? '');
    const most = mostBilled(count(prompt) + around + behind, parameters);
    const texts = textsOf(completions[i] ?? null);
    const generated = texts.map((text) =>
      parameters.echo && text.startsWith(prompt) ? text.slice(prompt.length) : text,
    );
    const counted = Math.ceil(sumOf(generated, count) * candidatesPerText(texts, parameters));
    const completion_tokens = Math.min(counted, most.completion_tokens);
    const prompt_tokens = saidPrompts?.[i] ?? most.prompt_tokens;
    const total_tokens = prompt_tokens + completion_tokens;
    const usage = { prompt_tokens, completion_tokens, total_tokens, estimated: true } as const;
    return withUsage(verdict, usage, {
      ...(model === null
        ? {
            oddUsage: 'guessed',
            mostUsage: {
              prompt_tokens:
                ratio.most(prompt) + around + (parameters.suffix ? ratio.most(parameters.suffix) : 0),
              completion_tokens: mostGenerated(completions[i] ?? null, generated, parameters),
            },
          }
        : { oddUsage: 'counted' }),
      ...(isShort && { notice: 'short_usage' }),
    });
  });
}

/** Upper bound of the tokens generated for all candidates; Infinity unless every choice ended with `stop`. */
function mostGenerated(
  completion: Completion | null,
  texts: readonly string[],
  parameters: Parameters,
): number {
  const ends = [completion?.finish_reason, ...(completion?.others ?? []).map((other) => other.finish_reason)];
  if (ends.some((end) => end !== 'stop')) return Number.POSITIVE_INFINITY;
  // A token has at least one byte. The stop sequence is not in the text.
  const end = Math.max(0, ...[parameters.stop ?? []].flat().map((stop) => Buffer.byteLength(stop))) + AROUND;
  const bytes = sumOf(texts, (text) => Buffer.byteLength(text) + end);
  return Math.ceil(bytes * candidatesPerText(texts, parameters));
}

/** Below this share of our exact count the server counted something else, whatever its template adds. */
const WELL_BELOW = 0.75;
/**
 * Characters per token that no tokenizer reaches on ordinary text; one Chinese, Japanese or Korean character
 * counts as three. Vocabularies of 200,000 tokens reach 5 in English, 4 in Russian, 3.5 in Hindi, 5 in
 * Chinese.
 */
const LONGEST_TOKENS = 7;
/** A longer run of characters without a space is more than one token. */
const LONGEST_WORD = 20;
/** Above this many characters per token, an exact count is worth its time. */
const LONG_TOKENS = 5;

interface Request {
  readonly style: CalledDeployment['style'] | undefined;
  readonly parameters: Parameters;
  readonly model: Model | null;
}

interface Missing {
  /** Which prompts are counted; `unknown` when only the texts show that some are missing. */
  readonly prompts: 'all' | 'first' | 'unknown';
  readonly texts: boolean;
}
const NONE: Missing = { prompts: 'all', texts: false };

/** Counts that are far too low: llama.cpp and others count only the first prompt and the first choice. */
function missingFrom(
  { prompt_tokens, completion_tokens }: Usage,
  rows: readonly ChunkRow[],
  completions: readonly (Completion | null)[],
  { parameters, model, style }: Request,
): Missing {
  const texts = writtenIn(completions);
  const several = rows.length > 1;
  const isOpenai = style === 'openai';
  // With `echo` a text may be the prompt alone, with nothing generated.
  const isLess = !parameters.echo && completion_tokens < texts.length;
  // The hosted service counts every prompt, whatever its deployments are named.
  const mayMiss = several && (isOpenai || model !== null);
  // Fewer tokens than texts: only the first choice is counted, and so only the first prompt.
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

const promptOf = ({ prompt }: ChunkRow): string => promptText(prompt);

/** With an unknown tokenizer, only fewer tokens than any tokenizer would make. */
const isFarBelow = (tokens: number, texts: readonly string[], model: Model | null): boolean =>
  model === null
    ? tokens < sumOf(texts, fewestTokens)
    : tokens < WELL_BELOW * sumOf(texts, loadTokenizer(model.encoding).count);

const writtenIn = (completions: readonly (Completion | null)[]): readonly string[] =>
  completions.flatMap(textsOf).filter((text) => text !== '');

const EAST_ASIAN = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu;
/** A Chinese, Japanese or Korean character counts as a word. */
const WORDS =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]|[^\s\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]+/gu;

/** Fewest tokens any tokenizer makes of a text: a word may be one (` positive`), longer runs are several. */
function fewestTokens(text: string): number {
  const plain = withoutRepeats(text);
  const words = sumOf(plain.match(WORDS) ?? [], (word) => Math.max(1, word.length / LONGEST_WORD));
  return Math.min(words, plain.replace(EAST_ASIAN, '   ').length / LONGEST_TOKENS);
}

/** Repeated characters once: a hundred spaces, or a table rule, may be one token. */
const withoutRepeats = (text: string): string => text.replace(/\s+|(.)\1+/gs, ' ');

/** A prompt counts as cut when the server counts less than this share of what its other counts predict. */
const FAR_FROM_OTHERS = 0.7;
/** Tokens below which a prompt fits any context and its count may be odd. */
const SHORT_PROMPT = 100;

/** Some servers cut a long prompt and answer all the same; the hosted service refuses it. */
function markedIfCut(
  verdict: Verdict,
  row: ChunkRow | undefined,
  { style }: CalledDeployment,
  model: Model | null,
  ratio: TokenRatio,
): Verdict {
  const completion = completionOf(verdict);
  if (style !== 'openai' || row === undefined || verdict.kind !== 'final') return verdict;
  const read = completion?.usage?.prompt_tokens ?? 0;
  if (completion === null || read === 0) return verdict;
  const prompt = promptOf(row);
  if (!isCut(read, prompt, model, ratio)) {
    ratio.saw(prompt, read);
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
  // The server's tokenizer may differ from that of the named model: its own counts say more.
  const likely = ratio.likely(prompt);
  if (likely !== null) {
    const isFew = (tokens: number): boolean => tokens >= SHORT_PROMPT && read < FAR_FROM_OTHERS * tokens;
    return isFew(likely) && isFew(ratio.likely(withoutRepeats(prompt)) ?? 0);
  }
  if (model === null || read * LONG_TOKENS >= prompt.length) return false;
  return read < WELL_BELOW * loadTokenizer(model.encoding).count(prompt);
}

/**
 * Tokens per row by which a service may rightly differ from our count: its templates, or its own default of
 * `max_tokens`.
 */
const SLACK = 10_000;

/** Whether the counts can be true, by a wide margin: nobody bills 2^53−1 tokens for a short text. */
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
    // A token has at least one byte.
    .map((row) => mostBilled(Buffer.byteLength(promptOf(row)) + behind, parameters))
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

const textsOf = (completion: Completion | null): readonly string[] => [
  completion?.text ?? '',
  ...(completion?.others ?? []).map(({ text }) => text),
];

const sumOf = (texts: readonly string[], size: (text: string) => number): number =>
  texts.reduce((sum, text) => sum + size(text), 0);

/** Candidates for each text seen: `best_of` returns one of several, and a filter may drop others. */
const candidatesPerText = (texts: readonly string[], parameters: Parameters): number =>
  candidatesOf(parameters) / texts.length;

export const completionOf = (verdict: Verdict): Completion | null =>
  verdict.kind === 'final' ? (verdict.outcome.completion ?? null) : null;

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

interface OwnTokens {
  readonly prompt: number;
  readonly completion: number;
}

/** Shares are in proportion to the rows' own tokens, whole numbers, and add up to the billed total. */
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

/** Rounds the running sum, so that the shares add up. */
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
