import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseJson } from '../core/json.js';
import { randomFrom } from '../core/random.js';
import { loadTokenizer } from '../prompt/tokens.js';
import type { BatchService } from './batches/routes.js';
import { envelopeOf, responseBody, streamBodies } from './body.js';
import { complete } from './completion.js';
import { deliver, latencyOf, wait, whole } from './delivery.js';
import { disturbed, inPlaceOfAnswer } from './disturbance.js';
import type { EmulatedOperation } from './operation.js';
import type { Service } from './options.js';
import { estimateOf } from './quota.js';
import { limitHeaders, Refusal, rateLimited, serverError } from './refusal.js';
import { type CompletionRequest, readBody } from './request.js';
import { pageOf, plainTarget, routeOf, type Target } from './routes.js';
import type { Visit } from './stats.js';

export async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  service: Service,
  batches: BatchService,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const page = pageOf(request, service);
  if (page !== null) return deliver(whole({ status: 200, body: page }), response, gone.signal);
  if (await batches.serve(request, response, gone.signal)) return;
  const leave = service.received.enter();
  try {
    const visit = await visited(request, service, gone.signal);
    // Before the last byte, so that a client that has read an answer finds it counted.
    service.received.add(visit);
    await deliver(visit.delivery, response, gone.signal);
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  } finally {
    leave();
  }
}

async function visited(incoming: IncomingMessage, service: Service, gone: AbortSignal): Promise<Visit> {
  let prompts: readonly string[] = [];
  try {
    const route = routeOf(incoming, service);
    const style = route.target === null ? 'plain' : 'service';
    const request = route.called.read(parseJson(await readBody(incoming)), style, service);
    const target = route.target ?? plainTarget(request.model, route.called, service);
    prompts = request.prompts;
    return { prompts, ...(await answer(request, route.called, target, service, gone)) };
  } catch (error) {
    if (gone.aborted) return { prompts, delivery: { kind: 'hang' } };
    if (error instanceof Refusal) return { prompts, delivery: whole(error.reply), isBlocked: error.isFilter };
    return { prompts, delivery: whole(serverError(error)) };
  }
}

/**
 * Checks in the order of the service: capacity of the flex tier, quota, context window, content filter. Faults
 * hit admitted requests only.
 */
async function answer(
  request: CompletionRequest,
  called: EmulatedOperation,
  target: Target,
  service: Service,
  gone: AbortSignal,
): Promise<Omit<Visit, 'prompts'>> {
  const { prompts, stream } = request;
  const { seed, latency, hint } = service;
  const tokenizer = loadTokenizer(target.model.encoding);
  const workshop = { ...service, tokenizer };
  const promptTokens = request.promptTokens((text) => tokenizer.count(text));

  const lack = request.tier === 'flex' ? service.shortage.next(prompts) : null;
  const turnedAway = lack && inPlaceOfAnswer(lack, target, hint);
  if (turnedAway) return { delivery: turnedAway, fault: lack.fault.name };
  const estimate = estimateOf(request, promptTokens, service.quota.estimate);
  const admission = service.quotaOf(target.deployment).admit(estimate, service.clock());
  const limits = service.quotaHeaders ? limitHeaders(admission.remaining, service.quota) : {};
  if (!admission.admitted) {
    const reply = rateLimited({ ...target, ...admission }, hint);
    const headers = { ...limits, ...reply.headers };
    return { delivery: whole({ ...reply, headers }), limited: admission.limit };
  }

  const jitter = randomFrom(seed, `latency\n${prompts.join('\n')}`);
  const next = service.faults.next(prompts);
  // Forms rewrite a whole body; a stream has none.
  const drawn = stream && next?.fault.kind === 'form' ? null : next;
  const fault = drawn?.fault.name;
  const instead = drawn && inPlaceOfAnswer(drawn, target, hint);
  if (instead) {
    await wait(latencyOf(latency, 0, jitter), gone);
    return { delivery: instead, fault };
  }

  const manner = drawn?.fault.kind === 'answer' ? { way: drawn.fault.way, random: drawn.random } : null;
  const completions = complete(request, promptTokens, target, workshop, manner);
  // A stream begins with its first token and is paced from there on.
  await wait(latencyOf(latency, stream ? 0 : completions.longest, jitter), gone);

  const envelope = envelopeOf(called, request, `${service.modelPrefix}${target.model.id}`);
  const groups = stream ? streamBodies(completions, envelope, target.filters) : [];
  const events = [
    ...[...groups].map((bodies) => bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`).join('')),
    'data: [DONE]\n\n',
  ];
  const body = stream ? events.join('') : responseBody(completions, envelope, target.filters);
  const reply = { status: 200, headers: limits, body };
  const pause = () => latencyOf({ ...latency, baseMs: 0 }, 1, jitter);
  const usual = stream ? ({ kind: 'stream', headers: limits, events, pause } as const) : whole(reply);
  return { delivery: (drawn && disturbed(reply, drawn)) ?? usual, fault, completions, tier: request.tier };
}
