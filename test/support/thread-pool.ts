import { connect, createServer, type Socket } from 'node:net';

/** A service behind a fixed number of threads. */
export interface ThreadPool {
  /** In place of that of the service. */
  readonly url: string;
  /** Resolves when the first connection waits for a thread. */
  readonly waits: Promise<void>;
  close(): Promise<void>;
}

/**
 * Puts a service behind threads as llama.cpp's own server has them: each stays with a connection until it is closed, and
 * then takes the one that has waited longest. (The real ones also leave a connection that is idle for 5 s, and each after 100 calls.)
 */
export async function startThreadPool(service: string, threads: number): Promise<ThreadPool> {
  const { hostname, port } = new URL(service);
  const line: Socket[] = [];
  const open = new Set<Socket>();
  let free = threads;

  const take = (): void => {
    const next = free > 0 ? line.shift() : undefined;
    if (next === undefined) return;
    free--;
    const inner = connect(Number(port), hostname);
    open.add(inner);
    let isLeft = false;
    const leave = (): void => {
      next.destroy();
      inner.destroy();
      if (isLeft) return;
      isLeft = true;
      free++;
      take();
    };
    for (const side of [next, inner]) side.on('error', leave).on('close', leave).on('end', leave);
    next.pipe(inner).pipe(next);
  };
  let waits = (): void => {};
  const waited = new Promise<void>((resolve) => {
    waits = resolve;
  });
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    open.add(socket);
    socket.on('error', () => {});
    line.push(socket);
    take();
    if (line.length > 0) waits();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    waits: waited,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}
