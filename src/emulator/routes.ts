import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { API_VERSIONS, type Model, modelOf } from '../service/catalogue.js';
import { EMULATED, type EmulatedOperation } from './operation.js';
import {
  type Asked,
  apiVersionNotSupported,
  deploymentNotFound,
  keyRefused,
  operationNotSupported,
  plainKeyRefused,
  plainModelMissing,
  plainModelNotFound,
  plainModelOfConversation,
  resourceNotFound,
  tokenRefused,
} from './refusal.js';

/** Where a request goes: what its address and headers say. */
export type Route =
  | { readonly to: 'stats' }
  | { readonly to: 'models' }
  | { readonly to: 'model'; readonly called: EmulatedOperation; readonly style: 'plain' }
  | {
      readonly to: 'model';
      readonly called: EmulatedOperation;
      readonly style: 'service';
      readonly target: Target;
    };

/** What answers a request to a model. */
export interface Target extends Asked {
  /** The unit of quota. */
  readonly deployment: string;
  readonly model: Model;
  /** Whether responses carry filter results. */
  readonly filters: boolean;
}

/** What the emulator answers to. */
export interface Gate {
  /** First path segment. */
  readonly segment: string;
  /** The keys that are accepted. */
  readonly keys: readonly string[];
  /** Deployment name → model ID, for names that are no model's own. */
  readonly deployments: ReadonlyMap<string, string>;
}

/**
 * Finds the route of a request, in the order of the service: path, key, API version, deployment, operation.
 * @throws Refusal
 */
export function routeOf(
  method: string | undefined,
  target: string | undefined,
  headers: IncomingHttpHeaders,
  gate: Gate,
): Route {
  const [path = '', query = ''] = (target ?? '').split('?', 2);
  const call = `${method} ${path}`;
  if (call === 'GET /stats') return { to: 'stats' };
  const plain = EMULATED.find(({ operation }) => call === `POST /v1/${operation.path}`);
  if (plain !== undefined || call === 'GET /v1/models') {
    if (!isKnown(bearerOf(headers), gate)) throw plainKeyRefused();
    return plain === undefined ? { to: 'models' } : { to: 'model', called: plain, style: 'plain' };
  }
  const named = method === 'POST' ? namedIn(path, gate) : null;
  if (named === null) throw resourceNotFound();
  const { called, deployment } = named;
  checkKey(headers, gate);
  const asked = serviceTarget(deployment, called, new URLSearchParams(query), gate);
  return { to: 'model', called, style: 'service', target: asked };
}

/**
 * The target of a plain request, whose model is in its body.
 * @throws Refusal
 */
export function plainTarget(name: string | null, { operation }: EmulatedOperation, gate: Gate): Target {
  if (name === null) throw plainModelMissing();
  const model = modelBehind(name, gate);
  if (!model) throw plainModelNotFound(name);
  if (model.type !== operation.models) throw plainModelOfConversation();
  return { style: 'plain', deployment: name, model, filters: false, subject: name };
}

function serviceTarget(
  deployment: string,
  { operation }: EmulatedOperation,
  query: URLSearchParams,
  gate: Gate,
): Target {
  const requested = query.get('api-version');
  if (!requested) throw resourceNotFound();
  const version = API_VERSIONS.get(requested);
  if (!version) throw apiVersionNotSupported();

  const model = modelBehind(deployment, gate);
  if (!model) throw deploymentNotFound();
  if (model.type !== operation.models) throw operationNotSupported(model.id);
  return { style: 'service', deployment, model, filters: version.filters, subject: requested };
}

function modelBehind(deployment: string, gate: Gate): Model | null {
  return modelOf(gate.deployments.get(deployment) ?? deployment);
}

/** The deployment and the operation that a path names. */
function namedIn(path: string, gate: Gate): { deployment: string; called: EmulatedOperation } | null {
  const [, segment, deployments, deployment, ...rest] = path.split('/').map(decoded);
  if (segment !== gate.segment || deployments !== 'deployments' || deployment === undefined) return null;
  const called = EMULATED.find(({ operation }) => rest.join('/') === operation.path);
  return called === undefined ? null : { deployment, called };
}

/** A path segment, decoded; as it is when it is badly encoded, which then matches nothing. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function checkKey(headers: IncomingHttpHeaders, gate: Gate): void {
  const key = headers['api-key'];
  if (typeof key === 'string') {
    if (!isKnown(key, gate)) throw keyRefused();
    return;
  }
  const token = bearerOf(headers);
  if (token === null) throw keyRefused();
  if (!isKnown(token, gate)) throw tokenRefused();
}

function bearerOf(headers: IncomingHttpHeaders): string | null {
  return /^Bearer +(.+)$/i.exec(headers.authorization ?? '')?.[1] ?? null;
}

function isKnown(given: string | null, { keys }: Gate): boolean {
  return given !== null && keys.some((key) => equal(key, given));
}

/** Compares in a time that does not tell how much of a key was right: real keys may be used here. */
function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
