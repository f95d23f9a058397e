import { UsageError } from '../core/errors.js';
import { isDecodable, withoutPassword, withoutPasswordInPublic } from './address.js';
import { FileKeyValue } from './embedded/key-value.js';
import type { Store, StoreOptions } from './store.js';

/** For help texts and advice. */
export const SHARED_QUEUE_FORMS = 'redis://… or rediss://…';
export const QUEUE_FORMS = `embedded, ${SHARED_QUEUE_FORMS}`;
export const SHARED_QUEUES = 'redis://HOST:PORT (or rediss://)';

/**
 * @returns the address of a Redis or Valkey; null for the embedded store
 * @throws UsageError naming the value, without its password, and the valid forms
 */
function serverOf(target: string): URL | null {
  if (target === 'embedded') return null;
  const url = URL.canParse(target) ? new URL(target) : null;
  // `redis:/user@host` is a path on an unnamed host.
  if (url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '' && isDecodable(url)) return url;
  throw new UsageError(
    'bad_queue',
    `the queue ${JSON.stringify(withoutPassword(target))} is of an unknown kind`,
    /^[\w+.-]*sentinel[\w+.-]*:/i.test(target)
      ? 'Addresses of Sentinel are not supported: use redis://HOST:PORT of the primary, or of a proxy that follows it.'
      : `Use embedded, or a Redis or Valkey: ${SHARED_QUEUES}; special characters of a password are percent-encoded.`,
  );
}

/** @throws UsageError when the target names no store */
export const isShared = (target: string): boolean => serverOf(target) !== null;

/**
 * Loads the driver of this store and no other. Once it is open, lost connections are retried for ever.
 * @throws UsageError when the target names no store, the server does not answer within about 5 seconds or
 *   refuses the password, or the state directory cannot be used
 */
export async function openStore(target: string, options: StoreOptions): Promise<Store> {
  const url = serverOf(target);
  if (url === null) return (await import('./embedded/store.js')).openEmbeddedStore(options);
  const exposed = withoutPasswordInPublic(url);
  if (exposed !== null) options.onWarning(exposed);
  return (await import('./redis/store.js')).openRedisStore(url, options);
}

export type Board = Pick<Store, 'keyValue' | 'describe' | 'close'>;

/**
 * Works while a run has the store open. Only its heartbeats and paces are used; a server is opened as for a
 * run.
 * @throws UsageError as `openStore` does
 */
export async function openBoard(target: string, options: StoreOptions): Promise<Board> {
  if (isShared(target)) return openStore(target, options);
  // Only one process may open the store of a run; its heartbeats are files beside it.
  const { stateDir } = options;
  return { keyValue: new FileKeyValue(stateDir), describe: () => stateDir, close: async () => {} };
}
