import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { it } from 'vitest';
import type { Server } from '../support/servers.js';
import { describeRedis } from '../support/stores.js';
import { trialOn } from '../support/trial.js';

/** The fault itself: longer than the lock of a queue entry, which is 60 seconds. */
const FROZEN_MS = 65_000;
/** Attempts to connect after which the default settings of the driver give up, for each connection of a run. */
const DEFAULT_LIMIT = 20;
const CONNECTIONS = 6;

describeRedis('a store that is frozen', (start) => {
  // Beside each other: they wait and do little else.
  it.concurrent('fault 31: for longer than a lock, costs no call', (context) =>
    trialOn(start, { rows: 400, latencyMs: 20 }, async (trial, server) => {
      const running = trial.run();
      await running.until(trial.called(100));
      await server.kill('SIGSTOP');
      await running.until(sleep(FROZEN_MS));
      await server.kill('SIGCONT');
      await trial.whole(running, { repeats: 0 }, context);
    }));

  it.concurrent('fault 32: away for longer than a driver tries by default, fails no row and costs no call', (context) =>
    trialOn(start, { rows: 400, latencyMs: 20 }, async (trial, server) => {
      const running = trial.run();
      await running.until(trial.called(100));
      await server.kill('SIGKILL');
      await running.until(refuseConnections(server, DEFAULT_LIMIT * CONNECTIONS));
      await server.restart();
      await trial.whole(running, { repeats: 0 }, context);
    }));
});

/** Stands in the place of a server that is down, hangs up on so many callers, and leaves. */
async function refuseConnections(server: Server, count: number): Promise<void> {
  const { hostname, port } = new URL(server.url);
  let refused = 0;
  let enough = (): void => {};
  const done = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const place = createServer((socket) => {
    socket.on('error', () => {}).destroy();
    if (++refused === count) enough();
  }).listen(Number(port), hostname);
  await once(place, 'listening');
  await done;
  place.close();
  await once(place, 'close');
}
