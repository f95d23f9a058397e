import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { errorCode } from '../core/errors.js';
import type { ServiceProxy } from './proxy.js';

/**
 * Follows no redirects.
 * @returns what went wrong, without the address, or null
 */
export async function postOnce(
  url: URL,
  body: string,
  proxy: ServiceProxy | null,
  signal: AbortSignal,
): Promise<string | null> {
  const dispatcher = dispatcherFor(url, proxy);
  try {
    const headers = { 'content-type': 'application/json' };
    const { origin, pathname, search } = url;
    const to = { origin, path: `${pathname}${search}` };
    const answer = await dispatcher.request({ ...to, method: 'POST', headers, body, signal });
    const { statusCode } = answer;
    answer.body.on('error', () => {}).destroy();
    return statusCode >= 200 && statusCode < 300 ? null : `answered with ${statusCode}`;
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') return 'did not answer in time';
    const code = errorCode(error);
    return `did not answer${code === '' ? '' : ` (${code})`}`;
  } finally {
    await dispatcher.destroy();
  }
}

/** https goes through a tunnel; http requests go to the proxy itself. */
export function dispatcherFor(url: URL, proxy: ServiceProxy | null): Dispatcher {
  if (proxy === null) return new Agent();
  const token = proxy.authorization;
  return new ProxyAgent({
    uri: proxy.address,
    proxyTunnel: url.protocol === 'https:',
    ...(token !== null && { token }),
  });
}
