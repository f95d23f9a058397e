import { isIP } from 'node:net';
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

/**
 * What to tell of a store that anybody on the internet may reach without a password (fault 59); null when it has one,
 * or is on this machine or in a private network.
 */
export function withoutPasswordInPublic(url: URL): string | null {
  if (url.password !== '' || isPrivate(url.hostname)) return null;
  return (
    `${url.host} is no private address, and ${url.protocol}// has no password: whoever reaches it can read the rows ` +
    'and their answers, and add entries of their own'
  );
}

/** Names without a dot are those of one network: `localhost`, a service of docker compose. */
function isPrivate(host: string): boolean {
  const version = isIP(host.replace(/^\[|\]$/g, ''));
  if (version === 4) return /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\./.test(host);
  if (version === 6) return /^\[(::1\]|f[cd]|fe80:)/i.test(host);
  return !host.includes('.') || /\.(local|localhost|internal|lan)$/i.test(host);
}

/** An address as it may be shown and logged. Works on text, because what has a typing error is no URL. */
export function withoutPassword(address: string): string {
  return address
    .replace(/^((?:[a-z]+:\/\/)?[^:/?#@]*):(?!\/\/).*@/i, '$1:***@')
    .replace(/([?&](?:ssl)?password=)[^&]*/gi, '$1***');
}
