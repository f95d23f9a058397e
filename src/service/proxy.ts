import { BlockList, isIP } from 'node:net';
import { UsageError } from '../core/errors.js';

/** A private field keeps the password out of logs. */
export class ServiceProxy {
  readonly #user: string | null;
  /** `http://host:port`, without the user. */
  readonly address: string;

  constructor({ origin, username, password }: URL) {
    this.address = origin;
    this.#user = username === '' ? null : `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  }

  /** `user:password`, which a response may quote; null without a user. */
  get user(): string | null {
    return this.#user;
  }

  get authorization(): string | null {
    return this.#user === null ? null : `Basic ${Buffer.from(this.#user).toString('base64')}`;
  }

  /** Name and value of the header; empty without a user. */
  get headers(): readonly string[] {
    return this.authorization === null ? [] : ['proxy-authorization', this.authorization];
  }
}

/**
 * From `HTTPS_PROXY` or `HTTP_PROXY` by scheme, unless `NO_PROXY` names the host. As in curl, lower-case
 * names win.
 * @returns null when the address is called directly
 * @throws UsageError for an invalid value, without showing it: it may hold a password
 */
export function proxyFor(
  address: string,
  variable: (name: string) => string | undefined,
): ServiceProxy | null {
  const target = new URL(address);
  const name = target.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const small = name.toLowerCase();
  const used = variable(small) === undefined ? name : small;
  const value = variable(used)?.trim();
  if (!value || isExcepted(target, variable('no_proxy') ?? variable('NO_PROXY') ?? '')) return null;
  const url = URL.parse(value.includes('://') ? value : `http://${value}`);
  if (url === null || url.hostname === '') {
    throw badProxy(`${used} holds no address of a proxy (not shown: it may hold a password)`);
  }
  if (!['http:', 'https:'].includes(url.protocol)) {
    throw badProxy(`${used} names a proxy of the kind ${url.protocol.slice(0, -1)}, which is not supported`);
  }
  try {
    return new ServiceProxy(url);
  } catch {
    throw badProxy(`the user or the password in ${used} is badly escaped (not shown)`);
  }
}

const badProxy = (message: string): UsageError =>
  new UsageError(
    'bad_proxy',
    message,
    'Set it to http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, or name the host of the service in NO_PROXY.',
  );

/** `*`, a host with its subdomains, an address, or a network (`10.0.0.0/8`), each with an optional port. */
function isExcepted({ hostname, port, protocol }: URL, list: string): boolean {
  const host = bare(hostname.toLowerCase());
  const ownPort = port || (protocol === 'https:' ? '443' : '80');
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      if (entry === '*') return true;
      // A bare IPv6 address contains colons itself.
      const colon = isIP(entry) === 6 ? -1 : entry.search(/:\d+$/);
      const name = bare(colon === -1 ? entry : entry.slice(0, colon)).replace(/^\*?\./, '');
      if (name === '' || (colon !== -1 && entry.slice(colon + 1) !== ownPort)) return false;
      if (name.includes('/')) return isInNetwork(host, name);
      return host === name || (isIP(host) === 0 && host.endsWith(`.${name}`));
    });
}

const bare = (host: string): string => host.replace(/^\[|\]$/g, '');

function isInNetwork(host: string, network: string): boolean {
  const [address = '', bits = ''] = network.split('/');
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  const most = family === 'ipv6' ? 128 : 32;
  if (isIP(address) === 0 || isIP(host) === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > most) return false;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), family);
  return list.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}
