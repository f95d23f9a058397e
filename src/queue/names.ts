import { createHash } from 'node:crypto';

/**
 * Name of the queue of a deployment: its name, and a short hash of the address behind which it is. Rows never
 * reach a service that their run was not meant for: not another resource with a deployment of the same name,
 * and not the real service when they are a rehearsal's.
 *
 * @param address base URL and segment of the service; null for emulated runs, whose addresses all differ
 */
export function queueName(deployment: string, address: string | null): string {
  // BullMQ allows no colon in a name. The hash tells apart what the replacement makes alike.
  const name = `promptmill-${deployment.replace(/[^\w.-]/g, '_')}`;
  const hash = createHash('sha256')
    .update(JSON.stringify([deployment, address]))
    .digest('hex');
  return `${name}-${address === null ? 'emulated-' : ''}${hash.slice(0, 8)}`;
}

/**
 * Name of the queue of a deployment behind an address of the environment. A slash at the end of the address changes
 * nothing: it is the same service.
 */
export const serviceQueue = (
  deployment: string,
  { baseUrl, segment }: { readonly baseUrl: string | undefined; readonly segment: string },
): string => queueName(deployment, `${baseUrl?.replace(/\/+$/, '')}/${segment}`);

/** The queues of a run, by deployment. @param emulated whether it is a rehearsal */
export const queuesOf =
  (emulated: boolean, address: Parameters<typeof serviceQueue>[1]) =>
  (deployment: string): string =>
    emulated ? queueName(deployment, null) : serviceQueue(deployment, address);

/** Id of a run: when it began, and enough chance to tell it from others: `20261121-020000-4f9c1a`. */
export function newRunId(now: Date, random: string): string {
  const stamp = now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-');
  return `${stamp}-${random}`;
}

/**
 * BullMQ id of a chunk. Deterministic, so that adding it again after a lost reply changes nothing (fault 36);
 * never digits only and never with a colon, which BullMQ refuses. The execution is part of it, because the
 * entry of a process that was killed stays locked for a while and must not stand in the way of its successor.
 */
export function chunkId(run: string, execution: number, first: number, row?: number): string {
  const id = `${run}-x${execution}-${first}`;
  return row === undefined ? id : `${id}-r${row}`;
}

/** Whether an entry is one of a run, of any execution. By its id, because its data may be lost. */
export const isEntryOf = (run: string, id: string): boolean => id.startsWith(`${run}-x`);
