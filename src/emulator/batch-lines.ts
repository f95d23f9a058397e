import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import * as z from 'zod';
import { isObject, parseJson } from '../core/json.js';
import type { Json } from '../core/model.js';
import { pick, randomFrom } from '../core/random.js';
import { loadTokenizer } from '../prompt/tokens.js';
import { isHit } from './batch-settings.js';
import { envelopeOf, responseBody } from './body.js';
import { complete } from './completion.js';
import { disturbed, type Drawn } from './disturbance.js';
import type { Draft, Files, StoredFile } from './files.js';
import type { EmulatedOperation } from './operation.js';
import type { Service } from './options.js';
import { faultReply, invalidRequest, Refusal, type Reply, type Style } from './refusal.js';
import { plainTarget, serviceTarget, type Target } from './routes.js';
import type { BatchedAnswer } from './stats.js';

/** The input of a batch, and how its requests are answered. */
export interface Work {
  readonly input: StoredFile;
  /** As each line must say it. */
  readonly endpoint: string;
  readonly called: EmulatedOperation;
  readonly style: Style;
  /** `null` where there are none. */
  readonly version: string | null;
  /** Of the batch, from 1: what chance decides depends on it. */
  readonly number: number;
}

export type Problem = { readonly code: string; readonly message: string; readonly line: number | null };

export interface Checked {
  readonly problems: readonly Problem[];
  /** Where each request is in the file. */
  readonly places: readonly Place[];
  /** Prompt tokens; 0 where nobody counts them. */
  readonly tokens: number;
  readonly target: Target | null;
}

interface Place {
  readonly at: number;
  readonly length: number;
}

const LINE = z.looseObject({
  custom_id: z.string().min(1),
  method: z.literal('POST'),
  url: z.string(),
  body: z.looseObject({ model: z.string().exactOptional() }),
});

/** Bytes. */
const LONGEST_LINE = 16 * 1024 * 1024;
const MOST_PROBLEMS = 100;
const MOST_REQUESTS: Readonly<Record<Style, number>> = { plain: 50_000, service: 100_000 };

/** What the service checks before a batch begins: the lines, not yet the bodies of their requests. */
export async function checkLines(work: Work, service: Service): Promise<Checked> {
  const { requests, bytes, enqueuedTokens } = service.batches;
  const most = requests ?? MOST_REQUESTS[work.style];
  const problems: Problem[] = [];
  const places: Place[] = [];
  const ids = new Set<string>();
  const found = (code: string, message: string, line: number | null = null) => {
    problems.push({ code, message, line });
  };
  let target: Target | null = null;
  let model: string | null = null;
  let tokens = 0;
  let number = 0;
  if (work.input.bytes > bytes) {
    found('file_too_large', `The input file has ${work.input.bytes} bytes; at most ${bytes} are allowed.`);
    return { problems, places, tokens, target };
  }
  for await (const { at, text } of linesOf(work.input.path)) {
    number += 1;
    if (problems.length === MOST_PROBLEMS) break;
    if (text.length === 0 || text.toString().trim() === '') continue;
    const line = text.length > LONGEST_LINE ? undefined : parseJson(text.toString());
    if (line === undefined) {
      found('invalid_json_line', 'This line is not parseable as valid JSON.', number);
      continue;
    }
    const read = LINE.safeParse(line);
    if (!read.success) {
      found('invalid_request', "A line needs 'custom_id', 'method' POST, 'url' and 'body'.", number);
      continue;
    }
    const { custom_id: id, url, body } = read.data;
    if (ids.has(id)) found('duplicate_custom_id', `The custom_id '${id}' is not unique.`, number);
    ids.add(id);
    if (url !== work.endpoint)
      found('url_mismatch', `The url of the request is not ${work.endpoint}, the batch's endpoint.`, number);
    const named = body.model ?? '';
    if (model === null) {
      model = named;
      try {
        target = targetOf(named, work, service);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        found('model_not_found', messageOf(error.reply.body), number);
      }
    } else if (named !== model) {
      found('model_mismatch', `The model '${named}' is not '${model}', that of the first line.`, number);
    }
    if (enqueuedTokens !== null && target) tokens += promptTokensOf(body, target, work, service);
    places.push({ at, length: text.length });
  }
  if (number === 0 || (places.length === 0 && problems.length === 0))
    found('empty_batch', 'The input file has no requests.');
  if (places.length > most)
    found('too_many_tasks', `The input file has ${places.length} requests; at most ${most} are allowed.`);
  return { problems, places, tokens, target };
}

/** Holds a piece of the file and a line; a line that is too long comes cut. */
async function* linesOf(path: string): AsyncGenerator<{ readonly at: number; readonly text: Buffer }> {
  let at = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 })) {
    rest = Buffer.concat([rest, chunk]);
    let from = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', from)) {
      yield { at: at + from, text: rest.subarray(from, end) };
      from = end + 1;
    }
    at += from;
    rest = rest.subarray(from);
    if (rest.length > LONGEST_LINE) break;
  }
  if (rest.length > 0) yield { at, text: rest };
}

function targetOf(name: string, { style, called, version }: Work, service: Service): Target {
  return style === 'plain'
    ? plainTarget(name === '' ? null : name, called, service)
    : serviceTarget(name, called, version, service);
}

function messageOf(body: Json): string {
  const error = isObject(body) ? body['error'] : null;
  return isObject(error) ? String(error['message']) : JSON.stringify(body);
}

function promptTokensOf(body: object, { model }: Target, { called, style }: Work, service: Service): number {
  const { count } = loadTokenizer(model.encoding);
  try {
    const request = called.read(body, style, service);
    return request.promptTokens((text) => count(text)).reduce((sum, tokens) => sum + tokens, 0);
  } catch (error) {
    if (error instanceof Refusal) return 0;
    throw error;
  }
}

export interface Written {
  readonly output: Draft;
  readonly errors: Draft;
  /** As the batch tells them. */
  readonly completed: number;
  readonly failed: number;
}

/**
 * Answers a share of the requests, in an order of chance, and says of the others that they were left.
 * @param left why the others have no answer
 */
export async function answerLines(
  work: Work,
  { places, target }: Checked,
  share: number,
  left: { readonly code: string; readonly message: string },
  files: Files,
  service: Service,
): Promise<Written> {
  const [output, errors] = [await files.draft(), await files.draft()];
  const input = await open(work.input.path);
  let [completed, failed] = [0, 0];
  try {
    const most = Math.floor(share * places.length);
    for (const [index, place] of shuffled(
      places,
      randomFrom(service.seed, `batch ${work.number}`),
    ).entries()) {
      const bytes = Buffer.alloc(place.length);
      await input.read(bytes, 0, place.length, place.at);
      const line = JSON.parse(bytes.toString());
      const write = ({ handle }: Draft, members: object) =>
        handle.writeFile(
          `${JSON.stringify({ id: `batch_req_${randomUUID().replaceAll('-', '')}`, custom_id: line.custom_id, ...members })}\n`,
        );
      if (index >= most || target === null) {
        await write(errors, { response: null, error: left });
        continue;
      }
      const what = `${work.number} ${line.custom_id}`;
      const hit = (kind: 'holes' | 'fail') => isHit(kind, what, { ...service.batches, seed: service.seed });
      if (hit('holes')) {
        completed += 1;
        const isTold = randomFrom(service.seed, `hole ${what}`)() < 0.5;
        const response = { status_code: 0, request_id: '', body: null };
        if (isTold) await write(errors, { response, error: null });
        continue;
      }
      const { reply, ...counted } = hit('fail')
        ? { reply: serverFault(target, what, service), prompts: [] }
        : answerTo(line.body, target, work, service);
      service.received.addBatched(counted);
      const { status, body } = reply;
      const response = { status_code: status, request_id: randomUUID(), body };
      if (status === 200) completed += 1;
      else failed += 1;
      await write(status === 200 ? output : errors, { response, error: null });
    }
    return { output, errors, completed, failed };
  } catch (error) {
    await Promise.all([files.drop(output), files.drop(errors)]);
    throw error;
  } finally {
    await input.close();
  }
}

function serverFault(target: Target, what: string, { seed, hint }: Service): Reply {
  const random = randomFrom(seed, `5xx ${what}`);
  return faultReply(pick(random, [500, 503]), target, hint, random);
}

/** What the same request is answered online, quota and faults of the connection aside. */
function answerTo(
  body: unknown,
  target: Target,
  { called, style }: Work,
  service: Service,
): BatchedAnswer & { readonly reply: Reply } {
  let prompts: readonly string[] = [];
  try {
    const request = called.read(body, style, service);
    if (request.stream) throw invalidRequest("'stream' is not supported in batches.", 'stream');
    prompts = request.prompts;
    const tokenizer = loadTokenizer(target.model.encoding);
    const promptTokens = request.promptTokens((text) => tokenizer.count(text));
    const drawn = service.faults.next(prompts);
    const manner = drawn?.fault.kind === 'answer' ? { way: drawn.fault.way, random: drawn.random } : null;
    const completions = complete(request, promptTokens, target, { ...service, tokenizer }, manner);
    const envelope = envelopeOf(called, request, `${service.modelPrefix}${target.model.id}`);
    const reply = { status: 200, body: responseBody(completions, envelope, target.filters) };
    return { prompts, completions, ...inForm(reply, drawn) };
  } catch (error) {
    if (error instanceof Refusal) return { prompts, reply: error.reply, isBlocked: error.isFilter };
    throw error;
  }
}

/** Of the faults of calls, those of the answer itself hit batches too. */
function inForm(reply: Reply, drawn: Drawn | null): { readonly reply: Reply; readonly fault?: string } {
  if (drawn?.fault.kind === 'answer') return { reply, fault: drawn.fault.name };
  const delivery = drawn?.fault.kind === 'form' ? disturbed(reply, drawn) : null;
  return delivery?.kind === 'whole' && drawn ? { reply: delivery.reply, fault: drawn.fault.name } : { reply };
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const keyed = list.map((one) => ({ one, key: random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ one }) => one);
}
