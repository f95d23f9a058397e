import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Logger } from 'pino';
import type { Environment } from '../config/environment.js';
import { openBoard } from '../queue/open-board.js';
import { openStore } from '../queue/open-store.js';
import { QueueViews } from '../queue/queue-views.js';
import { parseStoreAddress } from '../queue/store-address.js';
import { startWeb, type Web } from '../web/web.js';

/** What `--host`, `--port` and `--no-dashboard` say. */
export interface DashboardFlags {
  readonly host: string;
  readonly port: number;
  readonly dashboard: boolean;
}

/** What a dashboard shows. */
export interface DashboardSource {
  readonly environment: Environment;
  /** As in `--queue`. */
  readonly queue: string;
  /** Queues to show beside those of the runs; their entries hold no prompts. */
  readonly alsoQueues: readonly string[];
  readonly log: Logger;
}

export function addDashboardOptions(command: Command): Command {
  return command
    .addOption(new Option('--host <address>', 'where the dashboard listens').default('127.0.0.1'))
    .addOption(new Option('--port <n>', 'its port; 0 takes a free one').default(7300).argParser(portNumber))
    .addOption(new Option('--no-dashboard', 'no dashboard, no metrics, no health checks'));
}

/**
 * Starts the dashboard of a store. The embedded store itself belongs to one process; what its runs say of themselves
 * is in files.
 * @throws UsageError when there is no password for it, or the store or the address cannot be had
 */
export async function openDashboard(
  { host, port }: Pick<DashboardFlags, 'host' | 'port'>,
  { environment, queue, alsoQueues, log }: DashboardSource,
): Promise<Web> {
  const { stateDir, dashboardUser: user, dashboardPassword: password } = environment;
  // Warnings about the store are told by whoever works with it.
  const options = { stateDir, onWarning: () => {} };
  const version: string = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ).version;
  const web = { host, port, login: { user, password }, version, log };
  if (parseStoreAddress(queue).kind === 'embedded') {
    const { board } = await openBoard(queue, options);
    return startWeb({ ...web, board, queues: null });
  }
  const store = await openStore(queue, options);
  const queues = new QueueViews(store, log);
  const leave = async (): Promise<void> => {
    await queues.close();
    await store.close();
  };
  try {
    const started = await startWeb({ ...web, board: store.board, queues, alsoQueues });
    return { url: started.url, close: () => started.close().finally(leave) };
  } catch (error) {
    await leave();
    throw error;
  }
}

const HIGHEST_PORT = 65_535;

function portNumber(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= HIGHEST_PORT) return Number(text);
  throw new InvalidArgumentError(`must be a number from 0 to ${HIGHEST_PORT}, got ${text}`);
}
