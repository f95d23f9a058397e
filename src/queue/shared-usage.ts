import type { CalledOutcome, Usage } from '../model.js';
import { estimateTokens } from '../prompt/context.js';
import { loadTokenizer } from '../prompt/tokens.js';
import { modelOf } from '../service/catalogue.js';
import { shareUsage } from '../service/share-usage.js';
import type { ChunkRow } from './chunk.js';
import type { RowResult } from './row-result.js';

/**
 * Rows that shared a request were read with the usage of all of it: gives each its part, by the tokens of its own
 * prompt and answer, counted exactly where the model's tokenizer is known.
 */
export async function withSharedUsage(
  results: readonly RowResult[],
  rows: readonly ChunkRow[],
  deployment: string,
): Promise<readonly RowResult[]> {
  const billed = results.map(usageOf).find((usage) => usage !== null);
  if (billed === undefined || billed === null) return results;
  const encoding = modelOf(deployment)?.encoding;
  const count = encoding === undefined ? estimateTokens : (await loadTokenizer(encoding)).count;
  const shares = shareUsage(
    billed,
    results.map((result, i) => ({ prompt: count(rows[i]?.prompt ?? ''), completion: count(textOf(result)) })),
  );
  return results.map((result, i) => withUsage(result, shares[i] ?? billed));
}

const completionOf = (result: RowResult) =>
  result.kind === 'settled' && result.outcome.status !== 'failed' ? result.outcome.completion : null;

const usageOf = (result: RowResult): Usage | null => completionOf(result)?.usage ?? null;

const textOf = (result: RowResult): string => completionOf(result)?.text ?? '';

function withUsage(result: RowResult, usage: Usage): RowResult {
  const completion = completionOf(result);
  if (result.kind !== 'settled' || completion === null) return result;
  const outcome: CalledOutcome = { ...result.outcome, completion: { ...completion, usage } } as CalledOutcome;
  return { kind: 'settled', outcome };
}
