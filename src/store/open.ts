import { either, UsageError } from '../errors.js';
import { isDecodable, withoutPassword, withoutPasswordInPublic } from './address.js';
import { FileKeyValue } from './embedded/key-value.js';
import type { Store, StoreOptions } from './store.js';

/** A kind of store, as the value of `--queue` names it. Opening it loads its driver, and no other. */
interface StoreKind {
  /** Its addresses in short, for help texts. */
  readonly forms: readonly string[];
  /** An address in full, for advice. */
  readonly example: string;
  /** Whether several processes can have it open. */
  readonly isShared: boolean;
  isNamedBy(target: string): boolean;
  open(target: string, options: StoreOptions): Promise<Store>;
  /** Opens it for those who only look on. */
  look(target: string, options: StoreOptions): Promise<Lookout>;
}

/** The stores. All that is said of them elsewhere comes from this list. */
const STORES: readonly StoreKind[] = [
  {
    forms: ['embedded'],
    example: 'embedded',
    isShared: false,
    isNamedBy: (target) => target === 'embedded',
    open: async (_, options) => (await import('./embedded/store.js')).openEmbeddedStore(options),
    // One process only may open the store of a run; what it tells is beside it.
    look: async (_, { stateDir }) => ({
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

/** A store that is a server with an address. */
function server({
  schemes,
  isHostless = () => false,
  open,
  ...shown
}: {
  readonly schemes: readonly string[];
  /** Whether an address without a host is sound. @default none is: `redis:/user@host` is a path on an unnamed host */
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
    look: openAt,
  };
}

const SHARED = STORES.filter(({ isShared }) => isShared);

/** What `--queue` takes, in short, and those of them that several processes can have open. */
export const QUEUE_FORMS = either(STORES.flatMap(({ forms }) => forms));
export const SHARED_QUEUE_FORMS = either(SHARED.flatMap(({ forms }) => forms));
/** Addresses in full that several processes can have open. */
export const SHARED_QUEUES = either(SHARED.map(({ example }) => example));

/** @throws UsageError naming the value, without its password, and what it can be */
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

/**
 * Whether several processes can have a store open.
 * @param target the value of `--queue`
 * @throws UsageError when it names no store
 */
export const isShared = (target: string): boolean => storeNamed(target).isShared;

/**
 * Opens the store of a run. Once it is open, lost connections are made again for ever.
 * @param target the value of `--queue`
 * @throws UsageError when it names no store, the server does not answer within about 5 seconds or refuses the password, or
 *   the state directory cannot be used
 */
export const openStore = async (target: string, options: StoreOptions): Promise<Store> =>
  storeNamed(target).open(target, options);

/** The texts of a store, to look at. */
export type Lookout = Pick<Store, 'keyValue' | 'describe' | 'close'>;

/**
 * Opens a store for those who only look on, which is possible while a run has it open.
 * @throws UsageError as `openStore` does
 */
export const openLookout = async (target: string, options: StoreOptions): Promise<Lookout> =>
  storeNamed(target).look(target, options);
