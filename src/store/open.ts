import { either, UsageError } from '../core/errors.js';
import { isDecodable, withoutPassword, withoutPasswordInPublic } from './address.js';
import { FileKeyValue } from './embedded/key-value.js';
import type { Store, StoreOptions } from './store.js';

/** A kind of store, as `--queue` names it. Opening it loads its driver and no other. */
interface StoreKind {
  readonly forms: readonly string[];
  readonly example: string;
  readonly isShared: boolean;
  isNamedBy(target: string): boolean;
  open(target: string, options: StoreOptions): Promise<Store>;
  openBoard(target: string, options: StoreOptions): Promise<Board>;
}

/** The one list of stores; help texts and advice are made of it. */
const STORES: readonly StoreKind[] = [
  {
    forms: ['embedded'],
    example: 'embedded',
    isShared: false,
    isNamedBy: (target) => target === 'embedded',
    open: async (_, options) => (await import('./embedded/store.js')).openEmbeddedStore(options),
    // Only one process may open the store of a run; its heartbeats are files beside it.
    openBoard: async (_, { stateDir }) => ({
      keyValue: new FileKeyValue(stateDir),
      describe: () => stateDir,
      close: async () => {},
    }),
  },
  server({
    schemes: ['redis', 'rediss'],
    forms: ['redis://…', 'rediss://…'],
    example: 'redis://HOST:PORT (or rediss://)',
    open: async (url, options) => (await import('./redis/store.js')).openRedisStore(url, options),
  }),
  server({
    schemes: ['postgres', 'postgresql'],
    forms: ['postgres://…'],
    example: 'postgres://USER@HOST:PORT/DATABASE',
    // The host may be in the query, or be a local socket.
    isHostless: ({ href, pathname }) => href.includes('///') && !pathname.includes('@'),
    open: async (url, options) => (await import('./postgres/store.js')).openPostgresStore(url, options),
  }),
];

function server({
  schemes,
  isHostless = () => false,
  open,
  ...shown
}: {
  readonly schemes: readonly string[];
  /** @default none is: `redis:/user@host` is a path on an unnamed host */
  readonly isHostless?: (url: URL) => boolean;
  readonly open: (url: URL, options: StoreOptions) => Promise<Store>;
} & Pick<StoreKind, 'forms' | 'example'>): StoreKind {
  const openAt = async (target: string, options: StoreOptions): Promise<Store> => {
    const url = new URL(target);
    const exposed = withoutPasswordInPublic(url);
    if (exposed !== null) options.onWarning(exposed);
    return open(url, options);
  };
  return {
    ...shown,
    isShared: true,
    isNamedBy: (target) => {
      const url = URL.canParse(target) ? new URL(target) : null;
      if (url === null || !schemes.includes(url.protocol.slice(0, -1))) return false;
      return (url.hostname !== '' || isHostless(url)) && isDecodable(url);
    },
    open: openAt,
    openBoard: openAt,
  };
}

const SHARED = STORES.filter(({ isShared }) => isShared);

export const QUEUE_FORMS = either(STORES.flatMap(({ forms }) => forms));
export const SHARED_QUEUE_FORMS = either(SHARED.flatMap(({ forms }) => forms));
export const SHARED_QUEUES = either(SHARED.map(({ example }) => example));

/** @throws UsageError naming the value, without its password, and the valid forms */
function storeNamed(target: string): StoreKind {
  const store = STORES.find(({ isNamedBy }) => isNamedBy(target));
  if (store !== undefined) return store;
  throw new UsageError(
    'bad_queue',
    `the queue ${JSON.stringify(withoutPassword(target))} is of an unknown kind`,
    /^[\w+.-]*sentinel[\w+.-]*:/i.test(target)
      ? 'Addresses of Sentinel are not supported: use redis://HOST:PORT of the primary, or of a proxy that follows it.'
      : `Use ${either(STORES.map(({ example }) => example))}; special characters of a password are percent-encoded.`,
  );
}

/** @throws UsageError when the target names no store */
export const isShared = (target: string): boolean => storeNamed(target).isShared;

/**
 * Once it is open, lost connections are retried for ever.
 * @throws UsageError when the target names no store, the server does not answer within about 5 seconds or
 *   refuses the password, or the state directory cannot be used
 */
export const openStore = async (target: string, options: StoreOptions): Promise<Store> =>
  storeNamed(target).open(target, options);

export type Board = Pick<Store, 'keyValue' | 'describe' | 'close'>;

/**
 * Works while a run has the store open. Only its heartbeats and paces are used; a server is opened as for a
 * run.
 * @throws UsageError as `openStore` does
 */
export const openBoard = async (target: string, options: StoreOptions): Promise<Board> =>
  storeNamed(target).openBoard(target, options);
