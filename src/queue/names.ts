import { createHash } from 'node:crypto';
import type { Several } from '../service/endpoint-spec.js';

/**
 * The hash of the address keeps rows from a service that their run was not meant for: another resource with a
 * deployment of the same name, or the real service when they are a rehearsal's.
 * @param address base URL and segment of the service; null for emulated runs, whose addresses all differ
 */
export function queueName(deployment: string, address: string | null): string {
  // BullMQ allows no colon in a name. The hash distinguishes names that the replacement makes equal.
  const name = `promptmill-${deployment.replace(/[^\w.-]/g, '_')}`;
  const hash = createHash('sha256')
    .update(JSON.stringify([deployment, address]))
    .digest('hex');
  return `${name}-${address === null ? 'emulated-' : ''}${hash.slice(0, 8)}`;
}

/** A slash at the end of the address changes nothing: it is the same service. */
export const serviceQueue = (
  deployment: string,
  { baseUrl, segment }: { readonly baseUrl: string | undefined; readonly segment: string },
): string => queueName(deployment, `${baseUrl?.replace(/\/+$/, '')}/${segment}`);

interface Place {
  readonly name: string;
  readonly deployment: string;
  readonly address: Parameters<typeof serviceQueue>[1];
}

export const queuesOf =
  (emulated: boolean) =>
  ({ deployment, address }: Omit<Place, 'name'>): string =>
    emulated ? queueName(deployment, null) : serviceQueue(deployment, address);

/** The queue belongs to the set of endpoints, in any order; the pace to each of them. */
export function queueOfSet(endpoints: Several<Place>, emulated: boolean): string {
  const [first, ...others] = endpoints;
  const queueOf = queuesOf(emulated);
  if (others.length === 0) return queueOf(first);
  const sorted = [...endpoints].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = sorted.map(({ name }) => name).join('+');
  return queueName(names, emulated ? null : JSON.stringify(sorted.map((each) => [each.name, queueOf(each)])));
}

/** Start time and enough randomness to be unique: `20261121-020000-4f9c1a`. */
export function newRunId(now: Date, random: string): string {
  const stamp = now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
  return `${stamp}-${random}`;
}

/**
 * BullMQ id of a chunk. Deterministic, so that adding it again after a lost reply changes nothing (fault 36);
 * never digits only and never with a colon, which BullMQ refuses. It has the execution, because the entry of
 * a killed process stays locked for a while and must not block its successor.
 */
export function chunkId(run: string, execution: number, first: number, row?: number): string {
  const id = `${run}-x${execution}-${first}`;
  return row === undefined ? id : `${id}-r${row}`;
}

/** Entries of any execution. By id, because the data may be lost. */
export const isEntryOf = (run: string, id: string): boolean => id.startsWith(`${run}-x`);
