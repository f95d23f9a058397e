import type { AnswerSpec } from '../answer/answer-spec.js';
import type { Tokenizer } from '../prompt/tokens.js';
import type { Model } from '../service/catalogue.js';
import { answer, possibleAnswers } from './answers/answer.js';
import { drawn, type Possibility } from './answers/possible.js';
import { type Reading, readingOf } from './answers/reading.js';
import { type Unwanted, unwanted } from './answers/unwanted.js';
import { type FilterReport, type FilterSettings, isBlocked, judge, judgeCompletion } from './filter.js';
import { type Logprobs, logprobsOf, type PossiblePieces, sharesAlong } from './logprobs.js';
import { pick, randomFrom } from './random.js';
import { invalidRequest, promptBlocked } from './refusal.js';
import type { CompletionRequest } from './request.js';

/** One generated candidate. */
export interface Candidate {
  /** With the prompt before it when it is echoed; `null` when the filter left nothing, not even an empty text. */
  readonly text: string | null;
  readonly finishReason: 'stop' | 'length' | 'content_filter';
  /** Tokens generated; billed for every candidate, returned or not. */
  readonly tokens: number;
  readonly filter: FilterReport;
  /** The text token by token, for streams and log probabilities; empty when neither is asked for. */
  readonly pieces: readonly string[];
  readonly logprobs: Logprobs | null;
}

/** A way to answer that nobody asked for, and what decides its words. */
export interface Manner {
  readonly way: Unwanted;
  readonly random: () => number;
}

/** What candidates are made with. */
interface Workshop {
  /** What the job reads from its answers; a text where nobody knows. */
  readonly told: AnswerSpec;
  readonly tokenizer: Tokenizer;
  readonly filter: FilterSettings;
  readonly seed: number;
}

/** What one call produced, before it becomes a body. */
export interface Completions {
  readonly promptFilters: readonly FilterReport[];
  /** In the order of their `index`: prompt × n + j. */
  readonly choices: readonly Candidate[];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Tokens of the longest candidate: candidates are generated side by side, so this is what takes time. */
  readonly longest: number;
}

/** Tokens of each prompt, with the suffix that the model reads as well. */
export function promptTokensOf(request: CompletionRequest, { tokenizer }: Workshop): number[] {
  const suffix = request.suffix === '' ? 0 : tokenizer.count(request.suffix);
  return request.prompts.map((prompt) => tokenizer.count(prompt) + suffix);
}

/**
 * Answers a request. The result depends on nothing but the arguments.
 * @param promptTokens of {@link promptTokensOf}
 * @param filters whether the API version reports filter results; a blocked prompt is refused either way
 * @param manner `null` for answers as they should be
 * @throws Refusal when a prompt does not fit the context window or is blocked
 */
export function complete(
  request: CompletionRequest,
  promptTokens: readonly number[],
  model: Model,
  filters: boolean,
  workshop: Workshop,
  manner: Manner | null,
): Completions {
  for (const tokens of promptTokens) checkContextWindow(tokens, request.maxTokens, model);

  const promptFilters = request.prompts.map((prompt) =>
    judge(prompt, workshop.filter.prompts, workshop.seed),
  );
  const blocked = promptFilters.find(isBlocked);
  if (blocked) throw promptBlocked(filters ? blocked : null);

  const candidates = request.prompts.map((prompt) => {
    const question = questionOf(prompt, manner, request, workshop);
    return Array.from({ length: request.bestOf }, (_, index) => generate(question, index, request, workshop));
  });
  const tokens = candidates.flat().map((candidate) => candidate.tokens);
  return {
    promptFilters,
    choices: candidates.flatMap((ofPrompt) => ofPrompt.slice(0, request.n)),
    promptTokens: sum(promptTokens),
    completionTokens: sum(tokens),
    longest: tokens.reduce((most, count) => Math.max(most, count), 0),
  };
}

function checkContextWindow(promptTokens: number, maxTokens: number, model: Model): void {
  const requested = promptTokens + maxTokens;
  if (requested <= model.contextWindow) return;
  throw invalidRequest(
    `This model's maximum context length is ${model.contextWindow} tokens, however you requested ${requested} ` +
      `tokens (${promptTokens} in your prompt; ${maxTokens} for the completion). Please reduce your prompt; or ` +
      'completion length.',
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** A prompt, and what is known of its answers. */
interface Question {
  readonly reading: Reading;
  /** What may be answered; `null` where that is open, or nobody asks. */
  readonly possible: readonly Possibility[] | null;
  /** Makes of an answer what is written. */
  readonly written: (text: string) => string;
  /** What may be written, token by token, for log probabilities; empty where it is not known, or nobody asks. */
  readonly inPieces: readonly PossiblePieces[];
  /** Whether it ends half-way. */
  readonly halved: boolean;
}

function questionOf(
  prompt: string,
  manner: Manner | null,
  { temperature, logprobs }: CompletionRequest,
  { told, tokenizer, seed }: Workshop,
): Question {
  const reading = readingOf(prompt, told);
  const isAsked = temperature > 0 || logprobs !== null;
  const possible = isAsked ? possibleAnswers(reading, randomFrom(seed, `\n${prompt}`)) : null;
  const written = manner === null ? (text: string) => text : unwanted(manner.way, reading, manner.random);
  const isKnown = logprobs !== null && manner?.way !== 'invalid';
  const inPieces = (isKnown ? possible : null)?.map(({ text, share }) => ({
    pieces: piecesOf(written(text), tokenizer),
    share,
  }));
  return { reading, possible, written, inPieces: inPieces ?? [], halved: manner?.way === 'cut' };
}

/** @param index tells the candidates of a prompt apart */
function textFor(
  { reading, possible, written }: Question,
  index: number,
  { temperature, fingerprint }: CompletionRequest,
  { seed }: Workshop,
): string {
  // At temperature 0 every candidate is the most likely one, whatever the other parameters say.
  const variation = temperature === 0 ? '' : `${fingerprint}#${index}`;
  const random = randomFrom(seed, `${variation}\n${reading.prompt}`);
  return written(
    possible === null || temperature === 0
      ? answer(reading, random, temperature)
      : drawn(possible, temperature, random),
  );
}

/** Generates one candidate for one prompt. */
function generate(
  question: Question,
  index: number,
  request: CompletionRequest,
  workshop: Workshop,
): Candidate {
  const { halved } = question;
  const { prompt } = question.reading;
  const { tokenizer, seed } = workshop;
  const full = textFor(question, index, request, workshop);
  const { tokens, ...cut } = cutToLimits(full, request, tokenizer, halved);
  const filter = judgeCompletion(prompt, cut.text, workshop.filter.completions, seed);
  const { text, finishReason } = isBlocked(filter)
    ? {
        text: remainder(cut.text, randomFrom(seed, `blocked\n${prompt}`)),
        finishReason: 'content_filter' as const,
      }
    : cut;
  const whole = request.echo && text !== null ? prompt + text : text;
  return { text: whole, finishReason, tokens, filter, ...tokenwise(question, text, request, workshop) };
}

const REMAINDERS = ['half', 'empty', 'missing'] as const;

/** What the filter leaves of a blocked text: half of it, nothing, or no text at all; all three were seen. */
function remainder(text: string, random: () => number): string | null {
  switch (pick(random, REMAINDERS)) {
    case 'half':
      return text.slice(0, text.length / 2).replace(/[\uD800-\uDBFF]$/, '');
    case 'empty':
      return '';
    case 'missing':
      return null;
  }
}

/**
 * Ends a text at its first stop sequence or after `max_tokens` tokens, whichever comes first.
 * @param halved after half of its tokens at the latest, as if `max_tokens` were no more
 */
function cutToLimits(full: string, request: CompletionRequest, tokenizer: Tokenizer, halved: boolean) {
  const tokens = tokenizer.encode(full);
  const most = halved ? Math.min(request.maxTokens, Math.floor(tokens.length / 2)) : request.maxTokens;
  const isLong = tokens.length > most;
  // A character that is cut in two by the last token is not returned.
  const text = isLong ? tokenizer.decode(tokens.slice(0, most)).replace(/\uFFFD+$/, '') : full;
  const stopAt = request.stop
    .map((stop) => (stop === '' ? -1 : text.indexOf(stop)))
    .filter((index) => index >= 0)
    .reduce((first, index) => Math.min(first, index), text.length);
  if (stopAt < text.length) {
    const kept = text.slice(0, stopAt);
    return {
      text: kept,
      finishReason: 'stop' as const,
      tokens: Math.min(tokenizer.count(kept), most),
    };
  }
  return isLong
    ? { text, finishReason: 'length' as const, tokens: most }
    : { text, finishReason: 'stop' as const, tokens: tokens.length };
}

/** The text token by token, with log probabilities, where they are asked for. */
function tokenwise(
  { reading: { prompt }, inPieces }: Question,
  text: string | null,
  { echo, logprobs, stream, temperature }: CompletionRequest,
  { tokenizer, seed }: Workshop,
): Pick<Candidate, 'pieces' | 'logprobs'> {
  if (text === null || (logprobs === null && !stream)) return { pieces: [], logprobs: null };
  const echoed = echo ? piecesOf(prompt, tokenizer) : [];
  const own = piecesOf(text, tokenizer);
  const pieces = [...echoed, ...own];
  if (logprobs === null) return { pieces, logprobs: null };
  const known = [...echoed.map(() => null), ...sharesAlong(own, inPieces)];
  const random = randomFrom(seed, `logprobs\n${prompt}\n${text}`);
  return {
    pieces,
    logprobs: logprobsOf(pieces, known, logprobs, echo ? null : prompt, temperature === 0, random),
  };
}

/**
 * The text of each token. A character that takes several tokens comes whole with the last of them, so that the
 * pieces joined are the text.
 */
function piecesOf(text: string, tokenizer: Tokenizer): string[] {
  const pieces: string[] = [];
  let pending: number[] = [];
  for (const token of tokenizer.encode(text)) {
    pending.push(token);
    const piece = tokenizer.decode(pending);
    const isWhole = !piece.endsWith('\uFFFD');
    pieces.push(isWhole ? piece : '');
    if (isWhole) pending = [];
  }
  // Only a text that ends in U+FFFD itself leaves something.
  if (pending.length > 0) pieces[pieces.length - 1] = tokenizer.decode(pending);
  return pieces;
}
