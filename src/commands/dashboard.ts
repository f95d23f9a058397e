import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Environment } from '../config/environment.js';
import { packageFile } from '../package-file.js';
import { QueueViews } from '../queue/queue-views.js';
import { scheduleQueue } from '../schedule/schedule.js';
import { isShared, openLookout, openStore } from '../store/open.js';
import { startWeb } from '../web/web.js';

interface DashboardOptions {
  readonly environment: Environment;
  readonly queue: string;
  readonly emulated: boolean;
  readonly host: string;
  readonly port: number;
  readonly log: Logger;
  readonly problems: () => readonly string[];
}

/**
 * Starts the dashboard of a store. With the embedded store it shows runs and workers only: each queue is
 * inside the process of its run.
 * @throws UsageError without a password, and when the address or the store is not available
 */
export async function startDashboard(options: DashboardOptions): Promise<{ close(): Promise<void> }> {
  const { environment, emulated, host, port, log, problems } = options;
  const { keyValue, queues, close } = await openViews(options);
  try {
    const { dashboardUser: user, dashboardPassword: password } = environment;
    const alsoQueues = [scheduleQueue(emulated)];
    const web = await startWeb({
      keyValue,
      queues,
      alsoQueues,
      login: { user, password },
      host,
      port,
      version: version(),
      problems,
      log,
    });
    log.info({ url: web.url, user }, 'the dashboard listens');
    return {
      close: async () => {
        await web.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openViews({ environment, queue, log }: DashboardOptions) {
  const options = { stateDir: environment.stateDir, onWarning: () => {} };
  if (!isShared(queue)) return { ...(await openLookout(queue, options)), queues: null };
  const store = await openStore(queue, options);
  const queues = new QueueViews(store, log);
  return {
    keyValue: store.keyValue,
    queues,
    close: async () => {
      await Promise.all([queues.close(), store.close()]);
    },
  };
}

const version = (): string => JSON.parse(readFileSync(packageFile('package.json'), 'utf8')).version;
