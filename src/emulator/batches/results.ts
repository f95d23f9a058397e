import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { pick, randomFrom } from '../../core/random.js';
import { loadTokenizer } from '../../prompt/tokens.js';
import { envelopeOf, responseBody } from '../body.js';
import { complete } from '../completion.js';
import { type Drawn, disturbed } from '../disturbance.js';
import type { Body } from '../operation.js';
import type { Service } from '../options.js';
import { faultReply, invalidRequest, Refusal, type Reply } from '../refusal.js';
import type { Target } from '../routes.js';
import type { BatchedAnswer } from '../stats.js';
import type { Draft } from './files.js';
import { type CheckedInput, LINE, type Work } from './input.js';

/** Of requests, as a batch reports them. */
export interface Counts {
  readonly completed: number;
  readonly failed: number;
}

export interface Share {
  /** Of the requests that are answered. */
  readonly share: number;
  /** The error of the others. */
  readonly left: Body;
}

/**
 * Writes the lines of the results, in random order.
 * @param number of the batch, which seeds what is random
 */
export async function writeResults(
  work: Work,
  number: number,
  { places }: CheckedInput,
  target: Target,
  { share, left }: Share,
  [output, errors]: readonly [Draft, Draft],
  service: Service,
): Promise<Counts> {
  const { seed, batchFault } = service;
  const most = Math.round(share * places.length);
  const input = await open(work.input.path);
  let [completed, failed] = [0, 0];
  try {
    for (const [index, [at, length]] of shuffled(places, randomFrom(seed, `batch ${number}`)).entries()) {
      const bytes = Buffer.alloc(length);
      await input.read(bytes, 0, length, at);
      const { custom_id, body } = LINE.parse(JSON.parse(bytes.toString()));
      const write = ({ handle }: Draft, members: object) => {
        const id = `batch_req_${randomUUID().replaceAll('-', '')}`;
        return handle.writeFile(`${JSON.stringify({ id, custom_id, ...members })}\n`);
      };
      const name = `${number} ${custom_id}`;
      if (index >= most) {
        await write(errors, { response: null, error: left });
      } else if (batchFault('holes', name)) {
        completed += 1;
        const isWritten = randomFrom(seed, `hole ${name}`)() < 0.5;
        const response = { status_code: 0, request_id: '', body: null };
        if (isWritten) await write(errors, { response, error: null });
      } else {
        const isBroken = batchFault('fail', name);
        const reply = isBroken ? serverFault(target, name, service) : replyTo(body, target, work, service);
        const response = { status_code: reply.status, request_id: randomUUID(), body: reply.body };
        if (reply.status === 200) completed += 1;
        else failed += 1;
        await write(reply.status === 200 ? output : errors, { response, error: null });
      }
    }
    return { completed, failed };
  } finally {
    await input.close();
  }
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const keyed = list.map((one) => ({ one, key: random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ one }) => one);
}

function serverFault(target: Target, name: string, { seed, hint }: Service): Reply {
  const random = randomFrom(seed, `5xx ${name}`);
  return faultReply(pick(random, [500, 503]), target, hint, random);
}

function replyTo(body: unknown, target: Target, work: Work, service: Service): Reply {
  const { reply, ...answer } = answerTo(body, target, work, service);
  service.received.addBatched(answer);
  return reply;
}

/** What the same request is answered online; it knows no quota, and only faults of the answer itself. */
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

function inForm(reply: Reply, drawn: Drawn | null): { readonly reply: Reply; readonly fault?: string } {
  if (drawn?.fault.kind === 'answer') return { reply, fault: drawn.fault.name };
  const delivery = drawn?.fault.kind === 'form' ? disturbed(reply, drawn) : null;
  return delivery?.kind === 'whole' && drawn ? { reply: delivery.reply, fault: drawn.fault.name } : { reply };
}
