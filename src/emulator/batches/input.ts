import { createReadStream } from 'node:fs';
import * as z from 'zod';
import { parseJson } from '../../core/json.js';
import { loadTokenizer } from '../../prompt/tokens.js';
import type { EmulatedOperation } from '../operation.js';
import type { Service } from '../options.js';
import { Refusal, type Style } from '../refusal.js';
import { plainTarget, serviceTarget, type Target } from '../routes.js';
import type { StoredFile } from './files.js';

/** What a batch is to do. */
export interface Work {
  readonly input: StoredFile;
  /** The url of every line. */
  readonly endpoint: string;
  readonly called: EmulatedOperation;
  readonly style: Style;
  /** `null` on a plain server. */
  readonly version: string | null;
}

export interface CheckedInput {
  /** None for an input that can be worked on. */
  readonly problems: readonly Problem[];
  /** Where its requests are in the file. */
  readonly places: readonly Place[];
  /** Prompt tokens of all requests; 0 where nothing limits them. */
  readonly tokens: number;
  /** What all requests call; `null` if there is no such model. */
  readonly target: Target | null;
}

type Problem = { readonly code: string; readonly message: string; readonly line: number | null };

type Place = readonly [at: number, bytes: number];

export const LINE = z.looseObject({
  custom_id: z.string().min(1),
  method: z.literal('POST'),
  url: z.string(),
  body: z.looseObject({ model: z.string().exactOptional() }),
});

/** Bytes. */
const LONGEST_LINE = 16 * 1024 * 1024;
const MOST_PROBLEMS = 100;
const MOST_REQUESTS: Readonly<Record<Style, number>> = { plain: 50_000, service: 100_000 };

/** The check before a batch begins: of the lines, not of the bodies of their requests. */
export async function checkInput(work: Work, service: Service): Promise<CheckedInput> {
  const { requests, bytes, enqueuedTokens } = service.batches;
  const problems: Problem[] = [];
  const places: Place[] = [];
  const ids = new Set<string>();
  let tokens = 0;
  let target: Target | null = null;
  let model: string | null = null;
  let number: number | null = null;
  const found = (code: string, message: string) => problems.push({ code, message, line: number });

  const isTooLarge = work.input.bytes > bytes;
  if (isTooLarge) found('file_too_large', `The input file has more than ${bytes} bytes.`);
  for await (const { place, text } of isTooLarge ? [] : linesOf(work.input.path)) {
    number = (number ?? 0) + 1;
    if (problems.length >= MOST_PROBLEMS) break;
    if (text.trim() === '') continue;
    const json = parseJson(text);
    const line = LINE.safeParse(json);
    if (!line.success) {
      if (json === undefined) found('invalid_json_line', 'This line is not parseable as valid JSON.');
      else found('invalid_request', "A line needs 'custom_id', 'method' POST, 'url' and 'body'.");
      continue;
    }
    const { custom_id: id, url, body } = line.data;
    places.push(place);
    if (ids.has(id)) found('duplicate_custom_id', `The custom_id '${id}' is not unique.`);
    ids.add(id);
    if (url !== work.endpoint) found('url_mismatch', `The url of the line is not ${work.endpoint}.`);
    const named = body.model ?? '';
    if (model === null) {
      model = named;
      target = targetOf(model, work, service);
      if (target === null) found('model_not_found', `'${model}' is no model for ${work.endpoint}.`);
    } else if (named !== model) {
      found('model_mismatch', `The model of the line is not '${model}', that of the first line.`);
    }
    if (enqueuedTokens !== null && target !== null) tokens += promptTokensOf(body, target, work, service);
  }
  number = null;
  const most = requests ?? MOST_REQUESTS[work.style];
  if (places.length > most) found('too_many_tasks', `The input file has more than ${most} requests.`);
  if (places.length + problems.length === 0) found('empty_batch', 'The input file has no requests.');
  return { problems, places, tokens, target };
}

/** Holds a piece of the file and a line; a line that is too long ends early. */
async function* linesOf(path: string): AsyncGenerator<{ readonly place: Place; readonly text: string }> {
  let at = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path)) {
    rest = Buffer.concat([rest, chunk]);
    let from = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', from)) {
      yield { place: [at + from, end - from], text: rest.toString('utf8', from, end) };
      from = end + 1;
    }
    at += from;
    rest = rest.subarray(from);
    if (rest.length > LONGEST_LINE) break;
  }
  if (rest.length > 0) yield { place: [at, rest.length], text: rest.toString() };
}

function targetOf(model: string, { style, called, version }: Work, service: Service): Target | null {
  if (model === '') return null;
  return unlessRefused(null, () =>
    style === 'plain' ? plainTarget(model, called, service) : serviceTarget(model, called, version, service),
  );
}

function promptTokensOf(body: object, { model }: Target, { called, style }: Work, service: Service): number {
  const { count } = loadTokenizer(model.encoding);
  return unlessRefused(0, () =>
    called
      .read(body, style, service)
      .promptTokens((text) => count(text))
      .reduce((sum, tokens) => sum + tokens, 0),
  );
}

function unlessRefused<T>(otherwise: T, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) return otherwise;
    throw error;
  }
}
