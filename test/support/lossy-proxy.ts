import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A connection between a client and a real server that can be cut at the worst moment. */
export interface LossyProxy {
  /** The server's address with the proxy in its place. */
  readonly url: string;
  /** Swallows the next reply of the server, which has done what it was asked, and cuts the connection. */
  loseNextReply(): void;
  /**
   * Spoils the next messages to the server that hold a text, one after the other: of `reply` the server does all, and
   * its reply is swallowed; of `half` it gets the first half. The connection is cut each time.
   * @returns a promise that resolves when the last of them is spoiled
   */
  spoil(text: string, ways: readonly ('reply' | 'half')[]): Promise<void>;
  close(): Promise<void>;
}

export async function startLossyProxy(target: string): Promise<LossyProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let lose = false;
  let spoiling: { text: string; ways: ('reply' | 'half')[]; done: () => void } | null = null;
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
    let spoilt = false;
    client.on('data', (data) => {
      if (spoilt) return;
      const way = spoiling !== null && data.includes(spoiling.text) ? spoiling.ways.shift() : undefined;
      spoilt = way !== undefined;
      if (spoiling?.ways.length === 0) spoiling.done();
      if (way === undefined) upstream.write(data);
      // Ended and not destroyed: a reset could take back what the server has not read yet. It closes when it has.
      else upstream.end(way === 'half' ? data.subarray(0, data.length / 2) : data);
    });
    upstream.on('data', (data) => {
      if (spoilt) return;
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
    spoil: (text, ways) =>
      new Promise((resolve) => {
        spoiling = { text, ways: [...ways], done: resolve };
      }),
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
