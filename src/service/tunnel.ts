import { Socket } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { PROXY_REFUSED } from './exchange.js';
import type { ServiceProxy } from './proxy.js';

interface TunnelSettings {
  readonly proxy: ServiceProxy;
  readonly target: string;
  /** Per step, in milliseconds. */
  readonly timeoutMs: number;
  /** Trusted certificates for the service, in PEM. */
  readonly ca?: string | undefined;
}

/** TLS connections through a proxy, which sees only the host's name. */
interface Tunnel {
  readonly connect: buildConnector.connector;
  close(): Promise<void>;
}

/** One CONNECT per connection. The error's code holds the proxy's status when it refuses. */
export function tunnelThrough({ proxy, target, timeoutMs, ca }: TunnelSettings): Tunnel {
  const toProxy = new Pool(proxy.address, { connect: { timeout: timeoutMs }, headersTimeout: timeoutMs });
  const secure = buildConnector({ timeout: timeoutMs, ...(ca !== undefined && { ca }) });
  const headers = ['host', target, ...proxy.headers];
  return {
    connect: (options, callback) => {
      toProxy.connect({ path: target, headers }).then(
        ({ socket, statusCode }) => {
          if (statusCode === 200 && socket instanceof Socket) {
            secure({ ...options, httpSocket: socket }, callback);
            return;
          }
          socket.on('error', () => {}).destroy();
          const code = `${PROXY_REFUSED}${statusCode}`;
          callback(Object.assign(new Error('the proxy refused'), { code }), null);
        },
        (error: Error) => callback(error, null),
      );
    },
    close: () => toProxy.destroy(),
  };
}
