import fastify, { type FastifyError, type FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { UsageError } from '../../core/errors.js';
import type { QueueView, QueueViews } from '../../queue/queue-views.js';
import type { KeyValue } from '../../store/key-value.js';
import { guard, isLoopback } from './guard.js';
import { loginFrom } from './login.js';
import { addMetrics } from './metrics.js';
import { addPages } from './pages.js';
import { QueueWatch } from './queues.js';
import { FleetWatch } from './watch.js';

export interface WebOptions {
  readonly keyValue: Pick<KeyValue, 'list'>;
  /** Null for the embedded store, whose queues are inside each run. The caller closes it, after the web. */
  readonly queues: Pick<QueueViews, 'views'> | null;
  /** Queues to show as well, such as the schedule's. @default none */
  readonly alsoQueues?: readonly string[];
  readonly login: { readonly user: string; readonly password: string | undefined };
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** 0 is a free one. @default 7300 */
  readonly port?: number;
  readonly version: string;
  /** What somebody has to repair, such as an unreadable job file; shown at the top. @default nothing */
  readonly problems?: () => readonly string[];
  readonly log: Logger;
}

export interface Web {
  /** Without a slash at the end. */
  readonly url: string;
  /** Stops listening and ends open requests. */
  close(): Promise<void>;
}

/** Requests have no body here, and no reason to last. */
const BODY_BYTES = 1_024;
const REQUEST_MS = 30_000;

/**
 * @throws UsageError without a password or with a short one, on any address (fault 59), or when the address
 *   cannot be used
 */
export async function startWeb(options: WebOptions): Promise<Web> {
  const { keyValue, queues, alsoQueues = [], host = '127.0.0.1', port = 7300, version, log } = options;
  const { problems = () => [] } = options;
  const login = loginFrom(options.login.user, options.login.password);
  const app = fastify({
    forceCloseConnections: true,
    bodyLimit: BODY_BYTES,
    requestTimeout: REQUEST_MS,
    // A proxy on this machine may name its client (X-Forwarded-For); others are not trusted.
    trustProxy: 'loopback',
  });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const status = error.statusCode ?? 500;
    // Internal errors are for the log: a message of the store may have an address in it.
    if (status >= 500) log.warn({ err: error }, 'a page of the dashboard failed');
    return reply
      .code(status)
      .send({ error: status >= 500 ? 'this page failed; the log says why' : error.message });
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'there is no such page' }));

  const watch = new FleetWatch(keyValue);
  const views = async (): Promise<readonly QueueView[]> => {
    if (queues === null) return [];
    const { runs, workers } = await watch.view();
    const names = [
      ...alsoQueues,
      ...workers.flatMap(({ beat }) => beat.queues.map(({ queue }) => queue)),
      ...runs.filter(({ beat }) => !beat.emulated || beat.state === 'running').map(({ beat }) => beat.queue),
    ];
    return queues.views(names);
  };
  try {
    await guard(app, host, login);
    addHealth(app, watch);
    addPages(app, { watch, queues: queues === null ? null : new QueueWatch(views), version, problems });
    addMetrics(app, { watch, views, version });
    await app.listen({ host, port });
  } catch (error) {
    watch.close();
    await app.close();
    throw cannotListen(error, host, port);
  }
  if (!isLoopback(host)) {
    log.warn(
      { host },
      'the dashboard listens beyond this machine, without TLS: put a proxy with TLS before it',
    );
  }
  const address = app.server.address();
  const heard = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${heard}`,
    close: async () => {
      watch.close();
      await app.close();
    },
  };
}

/** `/healthz` while the process answers, `/readyz` while its store does too. They tell nothing else. */
function addHealth(app: FastifyInstance, watch: FleetWatch): void {
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const { ready, silentMs } = await watch.view();
    if (ready) return { status: 'ready' };
    const since =
      silentMs === null ? 'has not answered yet' : `is silent for ${Math.round(silentMs / 1000)} s`;
    return reply.code(503).send({ status: 'not ready', reason: `the store ${since}` });
  });
}

function cannotListen(error: unknown, host: string, port: number): unknown {
  if (!(error instanceof Error) || !('syscall' in error)) return error;
  return new UsageError(
    'dashboard_address',
    `the dashboard cannot listen on --host ${host} --port ${port}: ${error.message}`,
    'Choose another port, or --port 0 for a free one.',
    { cause: error },
  );
}
