import { isIP } from 'node:net';

/** Rejects a stray `%` here, because the driver's own message about it is of another kind. */
export function isDecodable({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** The warning to give (fault 59); null with a password, on this machine or in a private network. */
export function withoutPasswordInPublic(url: URL): string | null {
  const password = url.password || url.searchParams.get('password');
  if (password || isPrivate(url.hostname)) return null;
  return (
    `${url.host} is no private address, and ${url.protocol}// has no password: whoever reaches it can read the rows ` +
    'and their answers, and add entries of their own'
  );
}

/** Host names without a dot belong to one network: `localhost`, a docker compose service. */
function isPrivate(host: string): boolean {
  const version = isIP(host.replace(/^\[|\]$/g, ''));
  if (version === 4) return /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\./.test(host);
  if (version === 6) return /^\[(::1\]|f[cd]|fe80:)/i.test(host);
  return !host.includes('.') || /\.(local|localhost|internal|lan)$/i.test(host);
}

/** Address parameters that hold a secret, also in the form `password=… host=…`. */
const SECRETS = /((?:^|[?&;\s])[\w-]*(?:pass|pwd|secret|token|auth|key)[\w-]*\s*=\s*)('[^']*'|[^&;\s]*)/gi;

/** Safe to show and log. Works on text, as a typo makes no URL, and hides rather too much (fault 87). */
export function withoutPassword(address: string): string {
  const text = address.replace(SECRETS, '$1***');
  const scheme = /^[\w+.-]*:?[/\\]+/.exec(text)?.[0] ?? '';
  const rest = text.slice(scheme.length);
  // A password may contain any character, including @, so the last @ ends it.
  const at = rest.lastIndexOf('@');
  const colon = rest.indexOf(':');
  if (at !== -1)
    return colon === -1 || colon > at ? text : `${scheme}${rest.slice(0, colon)}:***${rest.slice(at)}`;
  // Without an @ the host is missing, unless the part after the colon is a port.
  const [authority = ''] = /^[^/?#]*/.exec(rest) ?? [];
  if (/^(\[[^\]]*\]|[^:]*)(:\d{0,5})?$/.test(authority)) return text;
  return `${scheme}${rest.slice(0, colon)}:***`;
}
