import type { IncomingMessage, ServerResponse } from 'node:http';
import { modelsBody } from './body.js';
import { deliver } from './delivery.js';
import { answerTo, refusedWith } from './exchange.js';
import type { Service } from './options.js';
import { Refusal } from './refusal.js';
import { type Route, routeOf } from './routes.js';

/** One request from the first byte to the last. */
export async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  service: Service,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const route = routed(request, service);
  if (!(route instanceof Refusal) && route.to !== 'completions') {
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
