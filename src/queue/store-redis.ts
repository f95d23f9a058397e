import { createRedisBackend } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import { UsageError } from '../errors.js';
import { RedisLedger } from '../ledger/redis.js';
import { RedisBoard } from '../ledger/redis-board.js';
import { RedisRegister } from '../ledger/redis-register.js';
import type { Store, StoreOptions } from './store.js';
import { withoutPassword } from './store-address.js';
import { within } from './store-deadline.js';

/** The longest wait for a server at the start, and for its goodbye at the end, in milliseconds. */
const START_MS = 5_000;
const CLOSE_MS = 2_000;
/** The longest pause between two attempts to connect, in milliseconds. */
const RECONNECT_MS = 2_000;

const SETTINGS = {
  // The default gives up after 20 reconnects, and can mark a succeeded chunk as failed (fault 32).
  maxRetriesPerRequest: null,
  // For ever, never far apart, and not the whole fleet at the same moment.
  retryStrategy: (times: number) =>
    Math.min(RECONNECT_MS, 50 * 2 ** Math.min(times, 10)) * (0.5 + Math.random() / 2),
  // After a failover the old master is a replica: connect anew and send the refused command again (fault 33).
  reconnectOnError: (error: Error) => (error.message.startsWith('READONLY') ? 2 : false),
  // No commandTimeout: a command that timed out may have been done, and its caller would never know.
  connectTimeout: START_MS,
} satisfies RedisOptions;

/** @throws UsageError when the server does not answer or refuses */
export async function openRedisStore(url: URL, options: StoreOptions): Promise<Store> {
  const shown = withoutPassword(url.href);
  await lookAtServer(url, shown, options.onWarning);

  const client = new Redis(url.href, SETTINGS);
  // Without a listener ioredis prints every failed attempt to connect.
  client.on('error', () => {});
  return {
    kind: 'redis',
    name: null,
    ledger: new RedisLedger(client, options.ledgerTimes),
    register: new RedisRegister(client),
    board: new RedisBoard(client),
    backendFactory: createRedisBackend,
    connectionFor: () => ({ url: url.href, ...SETTINGS }),
    describe: () => shown,
    close: async () => {
      // A goodbye to a server that is away would wait for its return.
      if (client.status === 'ready') await within(CLOSE_MS, client.quit()).catch(() => {});
      client.disconnect();
    },
  };
}

/** One connection without second attempts, so that a wrong address or password is told and not retried for ever. */
async function lookAtServer(url: URL, shown: string, onWarning: (message: string) => void): Promise<void> {
  const probe = new Redis(url.href, {
    ...SETTINGS,
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  });
  // The error event tells the cause; connect() itself often says no more than that the connection is closed.
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
  } catch (error) {
    throw refusal(cause ?? error, shown);
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

/** The cause is left out on purpose: ioredis hangs the refused command on it, and with AUTH that is the password. */
function refusal(error: unknown, shown: string): UsageError {
  const reason = error instanceof Error ? error.message : String(error);
  // Redis says why it refuses by the first word of its reply.
  if (/^(WRONGPASS|NOAUTH|NOPERM|ERR AUTH|ERR invalid password)/.test(reason)) {
    return new UsageError(
      'queue_refused',
      `${shown} refuses this user or password: ${reason}`,
      'Give the right ones in the address, as redis://USER:PASSWORD@HOST:PORT.',
    );
  }
  return new UsageError(
    'queue_unreachable',
    `cannot reach ${shown}: ${reason}`,
    'Start the server, correct the address, or use --queue embedded.',
  );
}
