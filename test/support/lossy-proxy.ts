import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A connection between a client and a real server that can be cut at the worst moment. */
export interface LossyProxy {
  /** The server's address with the proxy in its place. */
  readonly url: string;
  /** Swallows the next reply of the server, which has done what it was asked, and cuts the connection. */
  loseNextReply(): void;
  close(): Promise<void>;
}

export async function startLossyProxy(target: string): Promise<LossyProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let lose = false;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', cut).on('close', () => {
        sockets.delete(socket);
        cut();
      });
    }
    client.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => {
      if (!lose) {
        client.write(data);
        return;
      }
      lose = false;
      cut();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  const url = new URL(target);
  url.port = String(address.port);
  return {
    url: url.href,
    loseNextReply: () => {
      lose = true;
    },
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
