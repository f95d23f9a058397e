import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Json } from '../core/model.js';
import { API_VERSIONS, type Model, modelOf } from '../service/catalogue.js';
import { modelsBody } from './body.js';
import type { EmulatedOperation } from './operation.js';
import type { Service } from './options.js';
import {
  apiVersionNotSupported,
  type CalledModel,
  deploymentNotFound,
  keyRefused,
  operationNotSupported,
  plainKeyRefused,
  plainModelMissing,
  plainModelNotFound,
  plainOperationNotSupported,
  resourceNotFound,
  tokenRefused,
} from './refusal.js';

export interface Route {
  readonly called: EmulatedOperation;
  /** `null` where the body names the model, as on a plain server. */
  readonly target: Target | null;
}

export interface Target extends CalledModel {
  /** The unit of quota. */
  readonly deployment: string;
  readonly model: Model;
  readonly filters: boolean;
}

/** Read-only pages: the stats, and the models of a plain server; `null` for everything else. */
export function pageOf({ method, url, headers }: IncomingMessage, service: Service): Json | null {
  if (method !== 'GET') return null;
  const path = pathOf(url);
  if (path === '/stats') return { ...service.received.stats };
  const isListed = path === MODELS && isKnown(bearerOf(headers), service);
  return isListed ? modelsBody(service.operations, service.deployments.keys()) : null;
}

/** Checks in the order of the service: path, key, API version, deployment, operation. @throws Refusal */
export function routeOf({ method, url, headers }: IncomingMessage, service: Service): Route {
  const path = pathOf(url);
  const plain = service.operations.find((one) => `${method} ${path}` === `POST /v1/${one.path}`);
  if (plain || `${method} ${path}` === `GET ${MODELS}`) {
    if (!plain) throw plainKeyRefused();
    checkPlainKey(headers, service);
    return { called: plain, target: null };
  }
  const [, segment, deployments, deployment, ...rest] = path.split('/').map(decoded);
  const called = service.operations.find((one) => rest.join('/') === one.path);
  const isFound = method === 'POST' && segment === service.segment && deployments === 'deployments';
  if (!isFound || !called || deployment === undefined) throw resourceNotFound();
  checkKey(headers, service);
  const version = queryOf(url).get('api-version');
  return { called, target: serviceTarget(deployment, called, version, service) };
}

const MODELS = '/v1/models';

export const pathOf = (url = ''): string => url.split('?', 1)[0] ?? '';

export const queryOf = (url = ''): URLSearchParams => new URLSearchParams(url.split('?', 2)[1]);

/** @throws Refusal */
export function plainTarget(name: string | null, called: EmulatedOperation, service: Service): Target {
  if (name === null) throw plainModelMissing();
  const model = modelBehind(name, called, service);
  if (!model) throw plainModelNotFound(name);
  if (model.type !== called.models) throw plainOperationNotSupported(called.name);
  return { style: 'plain', deployment: name, model, filters: false, subject: name, operation: called.name };
}

/** @throws Refusal */
export function serviceTarget(
  deployment: string,
  called: EmulatedOperation,
  requested: string | null,
  service: Service,
): Target {
  // Conversations came with later versions than the documented ones.
  const version = versionOf(requested, called.models === 'conversation');
  const model = modelBehind(deployment, called, service);
  if (!model) throw deploymentNotFound();
  if (model.type !== called.models) throw operationNotSupported(model.id, called.name);
  return {
    style: 'service',
    deployment,
    model,
    filters: version.filters,
    subject: version.name,
    operation: called.name,
  };
}

/** @param later whether other versions than the documented ones serve it. @throws Refusal */
export function versionOf(name: string | null, later: boolean): { name: string; filters: boolean } {
  if (!name) throw resourceNotFound();
  const isLater = later && /^\d{4}-\d\d-\d\d(-preview)?$/.test(name);
  const version = API_VERSIONS.get(name) ?? (isLater ? { filters: true } : null);
  if (!version) throw apiVersionNotSupported();
  return { name, ...version };
}

/** Most conversation models have names of their own: any name is one. */
function modelBehind(deployment: string, { models }: EmulatedOperation, service: Service): Model | null {
  const id = service.deployments.get(deployment) ?? deployment;
  return modelOf(id) ?? (models === 'conversation' ? { ...OTHER_MODEL, id } : null);
}

const OTHER_MODEL = { type: 'conversation', contextWindow: 128_000, encoding: 'o200k_base' } as const;

/** Decodes a path segment; a badly encoded one stays unchanged and matches nothing. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** @throws Refusal */
export function checkPlainKey(headers: IncomingHttpHeaders, service: Service): void {
  if (!isKnown(bearerOf(headers), service)) throw plainKeyRefused();
}

/** @throws Refusal */
export function checkKey(headers: IncomingHttpHeaders, service: Service): void {
  const key = headers['api-key'];
  if (typeof key === 'string') {
    if (!isKnown(key, service)) throw keyRefused();
    return;
  }
  const token = bearerOf(headers);
  if (token === null) throw keyRefused();
  if (!isKnown(token, service)) throw tokenRefused();
}

function bearerOf(headers: IncomingHttpHeaders): string | null {
  return /^Bearer +(.+)$/i.exec(headers.authorization ?? '')?.[1] ?? null;
}

function isKnown(given: string | null, { keys }: Service): boolean {
  return given !== null && keys.some((key) => equal(key, given));
}

/** Compares in constant time, so that timing reveals nothing about a key: real keys may be used here. */
function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
