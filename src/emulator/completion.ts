import type { AnswerSpec } from '../core/answer-spec.js';
import { pick, randomFrom } from '../core/random.js';
import type { Tokenizer } from '../prompt/tokens.js';
import { answer, possibleAnswers } from './answers/answer.js';
import { drawn } from './answers/labels.js';
import { type ReadPrompt, readPrompt } from './answers/read-prompt.js';
import { type Unwanted, unwanted } from './answers/unwanted.js';
import { type FilterReport, type FilterSettings, isBlocked, judge, judgeCompletion } from './filter.js';
import { type Logprobs, logprobsOf, sharesAlong } from './logprobs.js';
import { type PromptCache, SHORTEST } from './prompt-cache.js';
import { contextExceeded, type OperationName, promptBlocked } from './refusal.js';
import type { CompletionRequest } from './request.js';

export interface Candidate {
  /** Includes the prompt when it is echoed; `null` when the filter left no text, not even an empty one. */
  readonly text: string | null;
  /** The text says that the model does not answer. */
  readonly isRefusal: boolean;
  readonly finishReason: 'stop' | 'length' | 'content_filter';
  /** Tokens generated, reasoning included; billed for every candidate, returned or not. */
  readonly tokens: number;
  /** Those of them that nobody sees. */
  readonly reasoning: number;
  readonly filter: FilterReport;
  /** The text token by token, for streams and log probabilities; empty when the request wants neither. */
  readonly pieces: readonly string[];
  readonly logprobs: Logprobs | null;
}

export interface Manner {
  readonly way: Unwanted;
  readonly random: () => number;
}

interface Workshop {
  /** What the job reads from its answers; text when the job is unknown. */
  readonly told: AnswerSpec;
  readonly tokenizer: Tokenizer;
  readonly filter: FilterSettings;
  readonly cache: PromptCache;
  readonly seed: number;
}

interface CalledFor {
  readonly deployment: string;
  readonly operation: OperationName;
  readonly model: { readonly contextWindow: number };
  /** Whether the API version reports filter results; a blocked prompt is refused either way. */
  readonly filters: boolean;
}

export interface Completions {
  readonly promptFilters: readonly FilterReport[];
  /** In the order of their `index`: prompt × n + j. */
  readonly choices: readonly Candidate[];
  readonly promptTokens: number;
  /** Prompt tokens that the beginning of an earlier request had. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Completion tokens that nobody sees. */
  readonly reasoningTokens: number;
  /** Tokens of the longest candidate. Candidates are generated in parallel, so this decides the latency. */
  readonly longest: number;
}

/**
 * Answers a request. The result depends on the arguments only, cached tokens on earlier requests too.
 * @param manner `null` for a regular answer
 * @throws Refusal when a prompt does not fit the context window or is blocked
 */
export function complete(
  request: CompletionRequest,
  promptTokens: readonly number[],
  target: CalledFor,
  workshop: Workshop,
  manner: Manner | null,
): Completions {
  const limits = promptTokens.map((tokens) => limitOf(tokens, request.maxTokens, target));

  const promptFilters = request.prompts.map((prompt) =>
    judge(prompt, workshop.filter.prompts, workshop.seed),
  );
  const blocked = promptFilters.find(isBlocked);
  if (blocked) throw promptBlocked(target.filters ? blocked : null);

  const candidates = request.prompts.map((prompt, place) => {
    const question = questionOf(prompt, limits[place] ?? 0, manner, request, workshop);
    return Array.from({ length: request.bestOf }, (_, index) => generate(question, index, request, workshop));
  });
  const tokens = candidates.flat().map((candidate) => candidate.tokens);
  return {
    promptFilters,
    choices: candidates.flatMap((ofPrompt) => ofPrompt.slice(0, request.n)),
    promptTokens: sum(promptTokens),
    cachedTokens: cachedOf(request, sum(promptTokens), target, workshop),
    completionTokens: sum(tokens),
    reasoningTokens: sum(candidates.flat().map(({ reasoning }) => reasoning)),
    longest: tokens.reduce((most, count) => Math.max(most, count), 0),
  };
}

/** Most tokens of an answer. @throws Refusal when the context window has no room for it */
function limitOf(prompt: number, most: number | null, { model, operation }: CalledFor): number {
  const window = model.contextWindow;
  const limit = most ?? window - prompt;
  if (prompt + limit > window || (most === null && limit <= 0)) {
    throw contextExceeded(operation, window, prompt, most ?? 0);
  }
  return limit;
}

function cachedOf(
  { prefix }: CompletionRequest,
  promptTokens: number,
  { deployment }: CalledFor,
  { cache, tokenizer }: Workshop,
): number {
  if (prefix === null || promptTokens < SHORTEST) return 0;
  const tokens = prefix((text) => tokenizer.encode(text));
  return cache.read(deployment, tokens);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

type Question = ReturnType<typeof questionOf>;

/** Possible answers are `null` when they are unknown or the request does not need them. */
function questionOf(
  text: string,
  limit: number,
  manner: Manner | null,
  request: CompletionRequest,
  { told, tokenizer, seed }: Workshop,
) {
  const { temperature, logprobs, question } = request;
  const reading = inForm(readPrompt(question ?? text, toldBy(request, told), question === null), request);
  const { prompt } = reading;
  const isAsked = temperature > 0 || logprobs !== null;
  const possible = isAsked ? possibleAnswers(reading, randomFrom(seed, `\n${prompt}`)) : null;
  const written = manner === null ? (one: string) => one : unwanted(manner.way, reading, manner.random);
  const isKnown = logprobs !== null && manner?.way !== 'invalid';
  const inPieces = (isKnown ? possible : null)?.map(({ text, share }) => ({
    pieces: piecesOf(written(text), tokenizer),
    share,
  }));
  // A model thinks first: what is left of its tokens is for the answer.
  const reasoning = Math.min(request.reasoningTokens, limit);
  const most = limit - reasoning;
  return {
    reading,
    possible,
    written,
    inPieces: inPieces ?? [],
    halved: manner?.way === 'cut',
    reasoning,
    most,
  };
}

const toldBy = ({ json }: CompletionRequest, told: AnswerSpec): AnswerSpec =>
  json === null || json === 'any' ? told : { kind: 'json', schema: json };

/** An object around the answer where the request wants JSON and the prompt does not say which. */
function inForm(reading: ReadPrompt, { json }: CompletionRequest): ReadPrompt {
  const { spec } = reading;
  if (json !== 'any' || spec.kind === 'json') return reading;
  const one =
    spec.kind === 'labels' ? { enum: spec.labels } : { type: spec.kind === 'number' ? 'number' : 'string' };
  return { ...reading, spec: { kind: 'json', schema: { properties: { answer: one } } } };
}

/** @param index distinguishes the candidates of a prompt */
function textFor(
  { reading, possible, written }: Question,
  index: number,
  { temperature, fingerprint }: CompletionRequest,
  { seed }: Workshop,
): string {
  // At temperature 0 every candidate is the most likely one, whatever the other parameters are.
  const variation = temperature === 0 ? '' : `${fingerprint}#${index}`;
  const random = randomFrom(seed, `${variation}\n${reading.prompt}`);
  return written(
    possible === null || temperature === 0
      ? answer(reading, random, temperature)
      : drawn(possible, temperature, random),
  );
}

function generate(
  question: Question,
  index: number,
  request: CompletionRequest,
  workshop: Workshop,
): Candidate {
  const { reasoning } = question;
  const { prompt } = question.reading;
  const { tokenizer, seed } = workshop;
  const isRefusal = randomFrom(seed, `refuse ${index}\n${prompt}`)() < request.refusalRate;
  const full = isRefusal ? REFUSAL : textFor(question, index, request, workshop);
  const { tokens, ...cut } = cutToLimits(full, question, request.stop, tokenizer);
  const filter = judgeCompletion(prompt, cut.text, workshop.filter.completions, seed);
  const { text, finishReason } = isBlocked(filter)
    ? {
        text: remainder(cut.text, randomFrom(seed, `blocked\n${prompt}`)),
        finishReason: 'content_filter' as const,
      }
    : cut;
  const whole = request.echo && text !== null ? prompt + text : text;
  const pieces = tokenwise(question, text, request, workshop);
  return { text: whole, isRefusal, finishReason, tokens: reasoning + tokens, reasoning, filter, ...pieces };
}

const REFUSAL = "I'm sorry, but I can't help with that.";

const REMAINDERS = ['half', 'empty', 'missing'] as const;

/** What the filter leaves of a blocked text: half, an empty text, or none; all three were seen. */
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

/** Halved, it ends after half of its tokens at the latest, as with a lower `max_tokens`. */
function cutToLimits(full: string, question: Question, stops: readonly string[], tokenizer: Tokenizer) {
  const tokens = tokenizer.encode(full);
  const most = question.halved ? Math.min(question.most, Math.floor(tokens.length / 2)) : question.most;
  const isLong = tokens.length > most;
  // A character that the last token cuts in two is not returned.
  const text = isLong ? tokenizer.decode(tokens.slice(0, most)).replace(/\uFFFD+$/, '') : full;
  const stopAt = stops
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

/** A character that takes several tokens comes with the last of them: the joined pieces equal the text. */
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
  // Only a text that itself ends in U+FFFD leaves something.
  if (pending.length > 0) pieces[pieces.length - 1] = tokenizer.decode(pending);
  return pieces;
}
