import { UsageError } from '../errors.js';

/** Where the queue and the ledger are. */
export type StoreAddress =
  | { readonly kind: 'embedded' }
  | { readonly kind: 'redis'; readonly url: URL }
  | { readonly kind: 'postgres'; readonly url: URL };

const KINDS: ReadonlyMap<string, 'redis' | 'postgres'> = new Map([
  ['redis:', 'redis'],
  ['rediss:', 'redis'],
  ['postgres:', 'postgres'],
  ['postgresql:', 'postgres'],
]);

/**
 * Reads the value of `--queue`.
 * @throws UsageError naming the value, without its password, and the three forms
 */
export function parseStoreAddress(target: string): StoreAddress {
  if (target === 'embedded') return { kind: 'embedded' };
  const url = URL.canParse(target) ? new URL(target) : null;
  const kind = KINDS.get(url?.protocol ?? '');
  if (url !== null && kind !== undefined) return { kind, url };
  throw new UsageError(
    'bad_queue',
    `the queue ${JSON.stringify(withoutPassword(target))} is none that is known`,
    'Use embedded, redis://HOST:PORT (or rediss://) or postgres://USER@HOST:PORT/DATABASE; special characters of a password are percent-encoded.',
  );
}

/** An address as it may be shown and logged. Works on text, because what has a typing error is no URL. */
export function withoutPassword(address: string): string {
  return address
    .replace(/^((?:[a-z]+:\/\/)?[^:/?#@]*):(?!\/\/).*@/i, '$1:***@')
    .replace(/([?&](?:ssl)?password=)[^&]*/gi, '$1***');
}
