import { isObject, memberTexts, parseJson } from '../core/json.js';
import type { CalledOutcome, Elsewhere, Parameters, Prompt } from '../core/model.js';
import { resultId } from '../output/batch.js';
import { verdictsOf } from '../service/endpoint.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import type { Response } from '../service/exchange.js';
import { withRowUsage } from '../worker/row-usage.js';

/** A line of the results, or of the errors, of a hosted batch or of a runner such as `vllm run-batch`. */
export interface ResultLine {
  readonly customId: string;
  /** It is only the number of the row in an output of ours, which may be of a sample. */
  readonly isNumber: boolean;
  /** Null where the request was not answered. */
  readonly response: Response | null;
}

/** Null for what is no result line: other text, a line without an id, a request. */
export function parseResultLine(text: string, isUtf8 = true): ResultLine | null {
  const line = parseJson(text);
  if (!isObject(line) || !('response' in line || 'error' in line)) return null;
  const { custom_id: id, response: answered } = line;
  // Numbers keep their digits, as those of rows do.
  const customId = typeof id === 'number' ? memberTexts(text).get('custom_id') : id;
  if (typeof customId !== 'string') return null;
  const identity = { customId, isNumber: line['id'] === resultId(customId) };
  const error = line['error'] || null;
  if (!isObject(answered)) return { ...identity, response: null };
  const { status_code: status = 200, body } = answered;
  if (typeof status !== 'number' || !(status >= 100) || (error !== null && status < 400))
    return { ...identity, response: null };
  // Some runners have what is wrong with a request beside an empty response.
  const [holder, name] = body === undefined || body === null ? [text, 'error'] : [responseIn(text), 'body'];
  const said = typeof body === 'string' ? body : (memberTexts(holder).get(name) ?? 'null');
  if (said === 'null') return { ...identity, response: null };
  const response = { kind: 'response', status, headers: {}, body: said, latency_ms: 0 } as const;
  return { ...identity, response: isUtf8 ? response : { ...response, notUtf8: true } };
}

const responseIn = (text: string): string => memberTexts(text).get('response') ?? '{}';

/**
 * Reads it as the answer to a call. Null where that would be called again, or would stop a run; and for `done`, where the
 * file has an error other than a blocked prompt: this run may send another request.
 * @param common parameters of all rows; those of the row come before them
 */
export function outcomeOfLine(
  { response }: ResultLine,
  spec: EndpointSpec,
  { prompt, parameters: own }: { readonly prompt: Prompt; readonly parameters: Parameters | null },
  common: Parameters | undefined,
  tier: Elsewhere,
): CalledOutcome | null {
  if (response === null) return null;
  const parameters = { ...common, ...own };
  const request = { prompts: [prompt], parameters, ownFields: Object.keys(own ?? {}) };
  const judged = verdictsOf(response, request, spec, 1);
  const [verdict] = withRowUsage(judged, [{ row: 0, prompt, parameters: null }], parameters, spec);
  if (verdict?.kind !== 'final') return null;
  const { outcome } = verdict;
  if (tier === 'done' && response.status >= 400 && outcome.status !== 'filtered') return null;
  const { completion } = outcome;
  const called = { latency_ms: null, elsewhere: tier };
  return { ...outcome, ...called, ...(completion && { completion: { ...completion, tier } }) };
}
