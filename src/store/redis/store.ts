import { type BackendFactory, createRedisBackend, type RedisQueueBackend } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { reconnectMs } from '../../core/backoff.js';
import { within } from '../../core/clock.js';
import { withoutPassword } from '../address.js';
import { openingErrorOf, storeErrorOf } from '../error.js';
import { StoreHealth } from '../health.js';
import type { Store, StoreOptions } from '../store.js';
import { RedisKeyValue } from './key-value.js';
import { RedisLedger } from './ledger.js';

const START_MS = 5_000;
const CLOSE_MS = 1_000;
const settings = (health: StoreHealth) =>
  ({
    // The default gives up after 20 reconnects, and can mark a succeeded chunk as failed (fault 32).
    maxRetriesPerRequest: null,
    // For ever, never far apart, and not the whole fleet at the same moment.
    retryStrategy: reconnectMs,
    // After a failover the old primary is a replica: reconnect and resend the refused command (fault 33), as
    // long as the refusal may pass (fault 81).
    reconnectOnError: (error: Error) => {
      health.met(error);
      return storeErrorOf(error)?.code === 'queue_read_only' && health.mayPass(error) ? 2 : false;
    },
    // No commandTimeout: a command that timed out may have been done, and its caller would never know.
    connectTimeout: START_MS,
  }) satisfies RedisOptions;

/** @throws UsageError when the server does not answer or refuses */
export async function openRedisStore(url: URL, options: StoreOptions): Promise<Store> {
  const shown = withoutPassword(url.href);
  const health = new StoreHealth(shown);
  await probeServer(url, shown, options.onWarning);

  const client = new Redis(url.href, settings(health));
  // Without a listener ioredis prints every failed attempt to connect. A refused password arrives only here.
  client.on('error', (error) => health.met(error));
  health.opened();
  return {
    name: null,
    ledger: new RedisLedger(client, options.ledgerTimes, health.lasting),
    keyValue: new RedisKeyValue(client),
    backendFactory: queueBackend,
    health,
    ping: async () => void (await client.ping()),
    connection: { url: url.href, ...settings(health) },
    describe: () => shown,
    close: async () => {
      // A goodbye to a server that is away would wait for its return.
      if (client.status === 'ready') await within(CLOSE_MS, client.quit()).catch(() => {});
      client.disconnect();
    },
  };
}

/** An entry put back with token `0` loses its lock: locked, it could not be removed. */
const queueBackend: BackendFactory<RedisQueueBackend> = (...parts) => {
  const backend = createRedisBackend(...parts);
  const move = backend.moveJobFromActiveToWait.bind(backend);
  backend.moveJobFromActiveToWait = async (id, token) => {
    // Before the move, because the next lock may belong to another worker.
    if (token === '0') await (await backend.client).del(`${backend.toKey(id)}:lock`);
    return await move(id, token);
  };
  return backend;
};

/** Connects once, so that a wrong address or password is reported and not retried for ever. */
async function probeServer(url: URL, shown: string, onWarning: (message: string) => void): Promise<void> {
  const probe = new Redis(url.href, {
    connectTimeout: START_MS,
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  // The error event has the cause; connect() often only says that the connection is closed.
  let cause: unknown;
  const failed = new Promise<never>((_, reject) => {
    probe.on('error', (error) => {
      cause ??= error;
      reject(error);
    });
  });
  failed.catch(() => {});
  try {
    const info = await within(START_MS, Promise.race([failed, probe.connect().then(() => probe.info())]));
    warnOfForgetting(info, shown, onWarning);
    // Answering is not enough: a read-only replica answers too. A full server is waited for (fault 34).
    await within(START_MS, probe.eval(WRITE, 1, PROBE_KEY)).catch((error) => {
      if (storeErrorOf(error)?.kind !== 'full') throw error;
    });
  } catch (error) {
    throw openingErrorOf(cause ?? error, shown);
  } finally {
    probe.disconnect();
  }
}

function warnOfForgetting(info: string, shown: string, onWarning: (message: string) => void): void {
  const policy = /^maxmemory_policy:(.*?)\r?$/m.exec(info)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    onWarning(
      `${shown} has maxmemory-policy ${policy}: when it is full it drops what was paid for. Set noeviction.`,
    );
  }
  if (/^aof_enabled:0/m.test(info)) {
    onWarning(`${shown} has no append-only file: a restart can lose what was paid for. Set appendonly yes.`);
  }
}

/** Writes from a script, as the queue and the ledger do. */
const WRITE = "redis.call('SET', KEYS[1], 1); return redis.call('DEL', KEYS[1])";
const PROBE_KEY = 'promptmill:probe';
