import { mostBilled, plus } from '../budget/budget.js';
import type { CalledOutcome, Completion, Parameters, Usage } from '../model.js';
import { estimateTokens } from '../prompt/context.js';
import { loadTokenizer } from '../prompt/tokens.js';
import type { ChunkRow } from '../queue/chunk.js';
import { modelBehind } from '../service/catalogue.js';
import type { Deployed } from '../service/endpoint-spec.js';
import { candidatesOf } from '../service/parameters.js';
import type { Final, Verdict } from '../service/verdict.js';

/**
 * Gives the rows of a request their usage. Rows that shared it were read with the usage of all of it: each gets its part,
 * by the tokens of its own prompt and answer. Where the service sent no counts, or such as cannot be (fault 77), each row
 * gets those that we count. Exact where the model's tokenizer is known.
 * @param parameters those of the request
 */
export function withRowUsage(
  verdicts: readonly Verdict[],
  rows: readonly ChunkRow[],
  parameters: Parameters,
  deployed: Deployed,
): readonly Verdict[] {
  const completions = verdicts.map(completionOf);
  const said = completions.map((completion) => completion?.usage ?? null).find((usage) => usage !== null);
  const odd =
    verdicts.some((verdict) => verdict.kind === 'final' && verdict.oddUsage !== undefined) ||
    (said !== undefined && !isPossible(said, rows, parameters, completions));
  if (!odd && (said === undefined || rows.length === 1)) return verdicts;

  const model = modelBehind(deployed);
  const count = model === null ? estimateTokens : loadTokenizer(model.encoding).count;
  if (!odd && said !== undefined) {
    const own = rows.map(({ prompt }, i) => ({
      prompt: count(prompt),
      completion: sumOf(textsOf(completions[i] ?? null), count),
    }));
    const shares = shareUsage(said, own);
    return verdicts.map((verdict, i) => withUsage(verdict, shares[i] ?? said));
  }
  const behind = parameters.suffix ? count(parameters.suffix) : 0;
  return verdicts.map((verdict, i): Verdict => {
    const prompt = rows[i]?.prompt ?? '';
    const most = mostBilled(count(prompt) + behind, parameters);
    const texts = textsOf(completions[i] ?? null);
    const generated = texts.map((text) =>
      parameters.echo && text.startsWith(prompt) ? text.slice(prompt.length) : text,
    );
    const counted = Math.ceil(sumOf(generated, count) * candidatesPerText(texts, parameters));
    const completion_tokens = Math.min(counted, most.completion_tokens);
    const { prompt_tokens } = most;
    const total_tokens = prompt_tokens + completion_tokens;
    const usage = { prompt_tokens, completion_tokens, total_tokens, estimated: true } as const;
    return withUsage(verdict, usage, model === null ? 'guessed' : 'counted');
  });
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

function withUsage(verdict: Verdict, usage: Usage, oddUsage?: Final['oddUsage']): Verdict {
  const completion = completionOf(verdict);
  if (verdict.kind !== 'final' || completion === null) return verdict;
  const outcome: CalledOutcome = {
    ...verdict.outcome,
    completion: { ...completion, usage },
  } as CalledOutcome;
  return { kind: 'final', outcome, ...(oddUsage && { oddUsage }) };
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
