import { least, most, mostBilled, NO_TOKENS } from '../budget/budget.js';
import type { Parameters, Tokens } from '../model.js';
import { loadTokenizer, promptCounter } from '../prompt/tokens.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { modelBehind } from '../service/catalogue.js';
import type { Deployed } from '../service/endpoint-spec.js';
import type { Verdict } from '../service/verdict.js';
import { completionOf } from './row-usage.js';
import { AROUND } from './token-ratio.js';

/** A row that is about to be called, and what is reserved for it; nothing where the run has no budget. */
export interface ReservedRow extends ChunkRow {
  readonly most: Tokens;
}

/** Member by member: a spread takes ten times as long, and this is done for each row. */
function reserved({ row, prompt, parameters }: ChunkRow, most: Tokens): ReservedRow {
  return { row, prompt, parameters, most };
}

type CountOf = (text: string) => number;

interface Counting {
  readonly prompt: CountOf;
  readonly suffix: CountOf;
}

/** Knows the most that rows can be billed. */
export class MostBilled {
  readonly #counts = new Map<string, Counting>();

  /** Rows with the most that each can be billed; counting tokens costs time that only a budget is worth. */
  of(chunk: Chunk, rows: readonly ChunkRow[]): readonly ReservedRow[] {
    if (chunk.budget === null) return rows.map((row) => reserved(row, NO_TOKENS));
    const { prompt, suffix } = this.#countOf(chunk.endpoint);
    return rows.map((row) => {
      const parameters: Parameters = { ...chunk.parameters, ...row.parameters };
      // The model reads what comes after the completion as well.
      const behind = parameters.suffix ? suffix(parameters.suffix) : 0;
      return reserved(row, mostBilled(prompt(row.prompt) + behind, parameters));
    });
  }

  #countOf(deployed: Deployed): Counting {
    const model = deployed.model ?? deployed.deployment;
    const known = this.#counts.get(model);
    if (known !== undefined) return known;
    const counts = countOf(deployed);
    this.#counts.set(model, counts);
    return counts;
  }
}

/** Exact counts where the model is known. A deployment of another name may hold any model: no token has less than a byte. */
function countOf(deployed: Deployed): Counting {
  const model = modelBehind(deployed);
  if (model === null) {
    const bytes = (text: string): number => Buffer.byteLength(text) + AROUND;
    return { prompt: bytes, suffix: bytes };
  }
  const tokenizer = loadTokenizer(model.encoding);
  return { prompt: promptCounter(tokenizer), suffix: tokenizer.count };
}

/**
 * What a row counts when its call has ended: what it was billed, where nobody knows how much, the most that it may be, and where
 * nobody knows whether, all that was reserved for it. A refusal is not billed.
 */
export function billedFor(verdict: Verdict | undefined, reserved: Tokens): Tokens {
  switch (verdict?.kind) {
    case 'final': {
      const completion = completionOf(verdict);
      if (completion === null) return NO_TOKENS;
      if (completion.usage === null) return reserved;
      return verdict.oddUsage === 'guessed'
        ? most(completion.usage, least(verdict.mostUsage ?? reserved, reserved))
        : completion.usage;
    }
    case 'retry':
    case 'stop':
      return verdict.possiblyBilled ? reserved : NO_TOKENS;
    default:
      return NO_TOKENS;
  }
}
