import { isIP } from 'node:net';

/** A `%` that begins no percent-encoding would be found by the driver, whose message is of another kind. */
export function isDecodable({ username, password, pathname }: URL): boolean {
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
