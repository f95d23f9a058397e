import { createServer, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A forward proxy on 127.0.0.1: CONNECT for tunnels, and whole requests for http. */
export interface TestProxy {
  /** `host:port` */
  readonly host: string;
  /** What it was asked for: `CONNECT host:port`, `POST http://…`. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

export interface ProxyOptions {
  /** The only `user:password` that is let through. @default everybody */
  readonly user?: string;
  /** Status of a refusal of every request. @default none */
  readonly refuse?: number;
}

export async function startProxy({ user, refuse }: ProxyOptions = {}): Promise<TestProxy> {
  const asked: string[] = [];
  const sockets = new Set<Duplex>();
  const refusalOf = ({ method, url, headers }: IncomingMessage): number | null => {
    asked.push(`${method} ${url}`);
    const expected = user && `Basic ${Buffer.from(user).toString('base64')}`;
    if (expected && headers['proxy-authorization'] !== expected) return 407;
    return refuse ?? null;
  };
  const server = createServer((incoming, response) => {
    const refusal = refusalOf(incoming);
    if (refusal !== null) {
      incoming.resume();
      response.writeHead(refusal, { 'proxy-authenticate': 'Basic' }).end('<html>the proxy says no</html>');
      return;
    }
    const { 'proxy-authorization': _, ...headers } = incoming.headers;
    const onward = request(incoming.url ?? '', { method: incoming.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    incoming.pipe(onward);
  });
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('connect', (incoming: IncomingMessage, client: Duplex) => {
    const refusal = refusalOf(incoming);
    client.on('error', () => {});
    if (refusal !== null) {
      client.end(`HTTP/1.1 ${refusal} No\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    const { hostname, port } = new URL(`http://${incoming.url}`);
    const onward = connect(Number(port || 80), hostname, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      onward.pipe(client).pipe(onward);
    });
    sockets.add(onward);
    onward.on('error', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    host: `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
