import type { Parameters, Prompt, Tokens } from '../core/model.js';
import { atPrice, type Budget, least, most, mostBilled, NO_TOKENS } from '../pace/budget.js';
import { promptText } from '../prompt/prompt-text.js';
import { loadTokenizer, promptCounter } from '../prompt/tokens.js';
import type { ChunkAt, ChunkRow } from '../queue/chunk.js';
import { modelBehind } from '../service/catalogue.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { operationOf } from '../service/operation.js';
import type { Verdict } from '../service/verdict.js';
import { completionOf } from './row-usage.js';
import { AROUND } from './token-ratio.js';

/** `most` is what is reserved for the row; zero when the run has no budget. */
export interface ReservedRow extends ChunkRow {
  readonly most: Tokens;
}

/** Field by field: a spread is ten times slower, and this runs for every row. */
function reserved({ row, prompt, parameters }: ChunkRow, most: Tokens): ReservedRow {
  return { row, prompt, parameters, most };
}

interface Counting {
  readonly prompt: (prompt: Prompt) => number;
  readonly suffix: (text: string) => number;
}

export class MostBilled {
  readonly #counts = new Map<string, Counting>();

  /** Without a budget nothing is counted, because counting tokens takes time. */
  of(chunk: ChunkAt, rows: readonly ChunkRow[]): readonly ReservedRow[] {
    if (chunk.budget === null) return rows.map((row) => reserved(row, NO_TOKENS));
    return rows.map((row) => {
      const most = this.tokens(chunk, row);
      return reserved(row, atPrice(most, undefined, chunk.budget, chunk.endpoint.name));
    });
  }

  tokens(
    { endpoint, parameters: common }: Pick<ChunkAt, 'endpoint' | 'parameters'>,
    row: Pick<ChunkRow, 'prompt' | 'parameters'>,
  ): Tokens {
    const { prompt, suffix } = this.#countOf(endpoint);
    const parameters: Parameters = { ...common, ...row.parameters };
    const behind = parameters.suffix ? suffix(parameters.suffix) : 0;
    return mostBilled(prompt(row.prompt) + behind, parameters);
  }

  #countOf(endpoint: EndpointSpec): Counting {
    const name = `${endpoint.operation} ${endpoint.model ?? endpoint.deployment}`;
    const known = this.#counts.get(name);
    if (known !== undefined) return known;
    const counts = countOf(endpoint);
    this.#counts.set(name, counts);
    return counts;
  }
}

/** Exact where the model is known. Otherwise it may be any model, and bytes are the upper bound. */
function countOf(endpoint: EndpointSpec): Counting {
  const model = modelBehind(endpoint);
  const { overhead } = operationOf(endpoint);
  if (model === null) {
    const bytes = (text: string): number => Buffer.byteLength(text) + AROUND;
    return { prompt: (prompt) => bytes(promptText(prompt)) + overhead(prompt), suffix: bytes };
  }
  const tokenizer = loadTokenizer(model.encoding);
  return { prompt: promptCounter(tokenizer, overhead), suffix: tokenizer.count };
}

/**
 * Tokens that a row counts once its call has ended: its usage, or its upper bound where the usage is a guess,
 * or all that was reserved where it is unknown whether it was billed. Refusals are not billed.
 * @param budget where it is of money alone, cheaper tokens count by their price: {@link atPrice}
 * @param endpoint its name. @default the only one
 */
export function billedFor(
  verdict: Verdict | undefined,
  reserved: Tokens,
  budget: Budget | null = null,
  endpoint = '',
): Tokens {
  switch (verdict?.kind) {
    case 'final': {
      const completion = completionOf(verdict);
      if (completion === null) return NO_TOKENS;
      if (completion.usage === null) return reserved;
      const priced = (usage: Tokens): Tokens => atPrice(usage, completion.tier, budget, endpoint);
      const billed = priced(completion.usage);
      if (verdict.oddUsage !== 'guessed') return billed;
      return most(billed, verdict.mostUsage ? least(priced(verdict.mostUsage), reserved) : reserved);
    }
    case 'retry':
    case 'stop':
      return verdict.possiblyBilled ? reserved : NO_TOKENS;
    default:
      return NO_TOKENS;
  }
}
