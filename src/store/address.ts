import { isIP } from 'node:net';
import { UsageError } from '../errors.js';

/** Where the queue and the ledger are. */
type StoreAddress =
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
  if (url !== null && kind !== undefined && namesAHost(url, kind) && isDecodable(url)) return { kind, url };
  const sentinel = /sentinel/i.test(url?.protocol ?? '');
  throw new UsageError(
    'bad_queue',
    `the queue ${JSON.stringify(withoutPassword(target))} is none that is known`,
    sentinel
      ? 'Addresses of Sentinel are not supported: use redis://HOST:PORT of the primary, or of a proxy that follows it.'
      : 'Use embedded, redis://HOST:PORT (or rediss://) or postgres://USER@HOST:PORT/DATABASE; special characters of a password are percent-encoded.',
  );
}

/** `redis:/user@host` is a path on an unnamed host; PostgreSQL may have its host in the query, or a local socket. */
const namesAHost = ({ hostname, href, pathname }: URL, kind: 'redis' | 'postgres'): boolean =>
  hostname !== '' || (kind === 'postgres' && href.includes('///') && !pathname.includes('@'));

/** A `%` that begins no percent-encoding would be found by the driver, whose message is of another kind. */
function isDecodable({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/**
 * What to tell of a store that anybody on the internet may reach without a password (fault 59); null when it has one,
 * or is on this machine or in a private network.
 */
export function withoutPasswordInPublic(url: URL): string | null {
  const password = url.password || url.searchParams.get('password');
  if (password || isPrivate(url.hostname)) return null;
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

/** Parameters of an address that hold a secret, also in the form `password=… host=…`. */
const SECRETS = /((?:^|[?&;\s])[\w-]*(?:pass|pwd|secret|token|auth|key)[\w-]*\s*=\s*)('[^']*'|[^&;\s]*)/gi;

/**
 * An address as it may be shown and logged. Works on text, because what has a typing error is no URL, and rather hides too
 * much than too little (fault 87).
 */
export function withoutPassword(address: string): string {
  const text = address.replace(SECRETS, '$1***');
  const scheme = /^[\w+.-]*:?[/\\]+/.exec(text)?.[0] ?? '';
  const rest = text.slice(scheme.length);
  // A password may have any character, also an @, so the last one ends it.
  const at = rest.lastIndexOf('@');
  const colon = rest.indexOf(':');
  if (at !== -1)
    return colon === -1 || colon > at ? text : `${scheme}${rest.slice(0, colon)}:***${rest.slice(at)}`;
  // Without an @ the host was forgotten, unless what comes behind the colon is a port.
  const [authority = ''] = /^[^/?#]*/.exec(rest) ?? [];
  if (/^(\[[^\]]*\]|[^:]*)(:\d{0,5})?$/.test(authority)) return text;
  return `${scheme}${rest.slice(0, colon)}:***`;
}
