import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { loadTokenizer } from '../prompt/tokens.js';
import { type Envelope, modelsBody, responseBody, streamBodies } from './body.js';
import { type Completions, complete, promptTokensOf } from './completion.js';
import { type Delivery, deliver, latencyOf, wait } from './delivery.js';
import { type DrawnFault, inPlaceOfAnswer, withFault } from './fault.js';
import type { Body, EmulatedOperation } from './operation.js';
import type { Service } from './options.js';
import { estimateOf } from './quota.js';
import { randomFrom } from './random.js';
import { limitHeaders, Refusal, rateLimited } from './refusal.js';
import { type CompletionRequest, parseRequest, readBody } from './request.js';
import { plainTarget, type Route, routeOf, type Target } from './routes.js';
import type { Visit } from './stats.js';

/** One request from the first byte to the last. */
export async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  service: Service,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const route = routed(request, service);
  if (!(route instanceof Refusal) && route.to !== 'model') {
    const body = route.to === 'stats' ? { ...service.tally.stats } : modelsBody(service.deployments.keys());
    return deliver({ kind: 'whole', reply: { status: 200, body } }, response, gone.signal);
  }
  const leave = service.tally.enter();
  try {
    const { delivery, visit } =
      route instanceof Refusal
        ? refusedWith(route, [])
        : await answerTo(request, route, service, gone.signal);
    // Before the last byte: who has read an answer finds it counted.
    service.tally.add(visit);
    await deliver(delivery, response, gone.signal);
  } catch (error) {
    // The caller hung up, or the emulator is closing: nobody is left to answer.
    if (!gone.signal.aborted) throw error;
  } finally {
    leave();
  }
}

function routed(request: IncomingMessage, service: Service): Route | Refusal {
  try {
    return routeOf(request.method, request.url, request.headers, service);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/** How one completion request ends: what is sent, and what is counted. */
interface Answer {
  readonly delivery: Delivery;
  readonly visit: Visit;
}

const NOTHING: Visit = {
  status: null,
  fault: null,
  prompts: [],
  usage: null,
  whole: false,
  limited: null,
  filteredPrompt: false,
  filteredCompletions: 0,
};

/**
 * Answers a completion request, in the order of the service: the form of the body, the quota, then the model with
 * its context window and its content filter. Faults befall what the quota admits.
 * @param gone aborts when nobody waits for the answer any more
 */
async function answerTo(
  incoming: IncomingMessage,
  route: Extract<Route, { to: 'model' }>,
  service: Service,
  gone: AbortSignal,
): Promise<Answer> {
  let prompts: readonly string[] = [];
  try {
    const { called } = route;
    const request = parseRequest(await readBody(incoming), route.style, called);
    const target = route.style === 'plain' ? plainTarget(request.model, called, service) : route.target;
    prompts = request.prompts;
    return await answer(request, called, target, service, gone);
  } catch (error) {
    if (gone.aborted) return { delivery: { kind: 'hang' }, visit: { ...NOTHING, prompts } };
    return refusedWith(error, prompts);
  }
}

/** The answer to a request that is not good, or that the emulator itself fails at. */
function refusedWith(error: unknown, prompts: readonly string[]): Answer {
  if (error instanceof Refusal) {
    const { reply, isFilter } = error;
    return {
      delivery: { kind: 'whole', reply },
      visit: { ...NOTHING, prompts, status: reply.status, filteredPrompt: isFilter },
    };
  }
  // A defect of the emulator: said in the service's words, with the cause.
  const message = `The emulator had an error while processing your request: ${String(error)}`;
  const body = { error: { message, type: 'server_error', param: null, code: null } };
  return {
    delivery: { kind: 'whole', reply: { status: 500, body } },
    visit: { ...NOTHING, prompts, status: 500 },
  };
}

async function answer(
  request: CompletionRequest,
  called: EmulatedOperation,
  target: Target,
  service: Service,
  gone: AbortSignal,
): Promise<Answer> {
  const { prompts } = request;
  const { seed, latency, hint } = service;
  const workshop = { ...service, tokenizer: loadTokenizer(target.model.encoding) };
  const promptTokens = promptTokensOf(request, workshop);

  const estimate = estimateOf(request, promptTokens, service.quota.estimate);
  const admission = service.quotaOf(target.deployment).admit(estimate, service.clock());
  const limits = service.quotaHeaders ? limitHeaders(admission.remaining, service.quota) : {};
  if (!admission.admitted) {
    const reply = rateLimited({ ...target, ...admission }, hint);
    return {
      delivery: { kind: 'whole', reply: { ...reply, headers: { ...limits, ...reply.headers } } },
      visit: { ...NOTHING, prompts, status: 429, limited: admission.limit },
    };
  }

  const jitter = randomFrom(seed, `latency\n${prompts.join('\n')}`);
  const drawn = applicable(service.faults.next(prompts), request);
  const fault = drawn?.fault.name ?? null;
  const instead = drawn && inPlaceOfAnswer(drawn, target, hint);
  if (instead) {
    await wait(latencyOf(latency, 0, jitter), gone);
    return { delivery: instead, visit: { ...NOTHING, prompts, fault, status: statusOf(instead) } };
  }

  const manner = drawn?.fault.kind === 'answer' ? { way: drawn.fault.way, random: drawn.random } : null;
  const completions = complete(request, promptTokens, target.model, target.filters, workshop, manner);
  // A stream begins with its first token and is paced from there on.
  await wait(latencyOf(latency, request.stream ? 0 : completions.longest, jitter), gone);
  const pause = () => latencyOf({ ...latency, baseMs: 0 }, 1, jitter);
  const model = `${service.modelPrefix}${target.model.id}`;
  const delivery = deliveryOf(completions, called, request, { ...target, model }, drawn, limits, pause);
  return {
    delivery,
    visit: {
      ...NOTHING,
      prompts,
      fault,
      status: 200,
      usage: { prompt_tokens: completions.promptTokens, completion_tokens: completions.completionTokens },
      whole: delivery.kind === 'whole' || delivery.kind === 'stream',
      filteredCompletions: completions.choices.filter(({ finishReason }) => finishReason === 'content_filter')
        .length,
    },
  };
}

/** Forms are forms of a whole body: a stream has none. */
function applicable(drawn: DrawnFault | null, { stream }: CompletionRequest): DrawnFault | null {
  return stream && drawn?.fault.kind === 'form' ? null : drawn;
}

function deliveryOf(
  completions: Completions,
  called: EmulatedOperation,
  { stream, streamUsage }: CompletionRequest,
  { model, filters }: Pick<Target, 'filters'> & { readonly model: string },
  drawn: DrawnFault | null,
  headers: Readonly<Record<string, string>>,
  pause: () => number,
): Delivery {
  const envelope: Envelope = {
    called,
    id: `${called.idPrefix}${randomUUID().replaceAll('-', '')}`,
    created: Math.floor(Date.now() / 1000),
    model,
  };
  if (!stream) {
    const reply = { status: 200, headers, body: responseBody(completions, envelope, filters) };
    return (drawn && withFault(reply, drawn)) ?? { kind: 'whole', reply };
  }
  const events = [...eventsOf(streamBodies(completions, envelope, filters, streamUsage))];
  const faulty = drawn && withFault({ status: 200, headers, body: events.join('') }, drawn);
  return faulty ?? { kind: 'stream', headers, events, pause };
}

/** Server-sent events: one for each body, in the groups in which they are sent. */
function* eventsOf(groups: Iterable<readonly Body[]>): Generator<string> {
  for (const bodies of groups) yield bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`).join('');
  yield 'data: [DONE]\n\n';
}

function statusOf(delivery: Delivery): number | null {
  return 'reply' in delivery ? delivery.reply.status : null;
}
