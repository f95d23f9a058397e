import { parseStoreAddress, withoutPasswordInPublic } from './address.js';
import { FileKeyValue } from './embedded/key-value.js';
import type { Store, StoreOptions } from './store.js';

/**
 * Opens the store of a run: `embedded`, `redis://…`, `rediss://…`, `postgres://…` or `postgresql://…`. Loads
 * only that store's driver. Once it is open, lost connections are made again for ever.
 * @throws UsageError when the address is none of these, the server does not answer within about 5 seconds or
 *   refuses the password, or the state directory cannot be used
 */
export async function openStore(target: string, options: StoreOptions): Promise<Store> {
  const address = parseStoreAddress(target);
  const exposed = address.kind === 'embedded' ? null : withoutPasswordInPublic(address.url);
  if (exposed !== null) options.onWarning(exposed);
  switch (address.kind) {
    case 'embedded':
      return (await import('./embedded/store.js')).openEmbeddedStore(options);
    case 'redis':
      return (await import('./redis/store.js')).openRedisStore(address.url, options);
    case 'postgres':
      return (await import('./postgres/store.js')).openPostgresStore(address.url, options);
  }
}

/** The texts of a store, to look at. */
export type Lookout = Pick<Store, 'keyValue' | 'describe' | 'close'>;

/**
 * Opens a store for those who only look on. What the embedded store tells can be read while a run has its database, which
 * one process only may open.
 * @throws UsageError as `openStore` does
 */
export async function openLookout(target: string, options: StoreOptions): Promise<Lookout> {
  if (parseStoreAddress(target).kind !== 'embedded') return openStore(target, options);
  const { stateDir } = options;
  return {
    keyValue: new FileKeyValue(stateDir),
    describe: () => stateDir,
    close: async () => {},
  };
}
