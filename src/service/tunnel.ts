import { Socket } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { PROXY_REFUSED } from './exchange.js';
import type { ServiceProxy } from './proxy.js';

/** How to reach a host behind a proxy. */
export interface TunnelSettings {
  readonly proxy: ServiceProxy;
  /** `host:port` of the service. */
  readonly target: string;
  /** Longest time for each step of the way, in milliseconds. */
  readonly timeoutMs: number;
  /** Certificates to trust for the service, in PEM. */
  readonly ca?: string | undefined;
}

/** Connections to a service by TLS through a proxy, which sees the host's name and nothing else. */
export interface Tunnel {
  readonly connect: buildConnector.connector;
  close(): Promise<void>;
}

/** Each connection begins with a CONNECT of its own. What the proxy says when it refuses is in the error's code. */
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
