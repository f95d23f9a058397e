import { afterEach, beforeEach, expect, it } from 'vitest';
import { type LossyProxy, startLossyProxy } from '../support/lossy-proxy.js';
import { RedisAdmin } from '../support/redis-admin.js';
import type { Server } from '../support/servers.js';
import { describeRedis } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const ROWS = 600;

describeRedis('a store that loses messages', (start) => {
  let server: Server;
  let proxy: LossyProxy;
  let trial: Trial;
  beforeEach(async () => {
    server = await start();
    proxy = await startLossyProxy(server.url);
    trial = await Trial.begin({ queue: proxy.url, rows: ROWS });
  });
  afterEach(async () => {
    await trial.end();
    await proxy.close();
    await server.stop();
  });

  it('fault 36: when chunks are added and the reply is lost, or half arrives, no row is doubled or missing', async (context) => {
    // A field of every chunk, which nothing else that goes to the server has.
    const spoiled = proxy.spoil('promptsPerRequest', ['reply', 'half', 'half', 'reply', 'half', 'reply']);
    const running = trial.run();
    await running.until(spoiled);
    await trial.whole(running, { repeats: 0 }, context);
  });

  it('fault 37: events that are trimmed all the time change no count', async (context) => {
    const begin = await trimEvents(server.url);
    const running = trial.run();
    await running.until(trial.called(1));
    const forgetting = begin();
    await running.until(trial.called(ROWS));
    await trial.whole(running, { repeats: 0 }, context);
    expect(await forgetting.stop(), 'rounds that found events').toBeGreaterThan(1);
  });
});

/** Forgets events again and again, until it is stopped; then tells how often there were any. */
interface Forgetting {
  stop(): Promise<number>;
}

/** Connects, and returns what begins: the run does not wait for the connection. */
async function trimEvents(url: string): Promise<() => Forgetting> {
  const { client } = new RedisAdmin(url);
  await client.ping();
  const round = async (): Promise<number> => {
    const streams = await client.keys('bull:*:events');
    const trimmed = await Promise.all(streams.map((stream) => client.xtrim(stream, 'MAXLEN', 0)));
    return trimmed.reduce((sum, n) => sum + n, 0);
  };
  return () => {
    let going = true;
    const done = (async () => {
      let found = 0;
      while (going) found += (await round()) > 0 ? 1 : 0;
      client.disconnect();
      return found;
    })();
    return {
      stop: () => {
        going = false;
        return done;
      },
    };
  };
}
