import { createServer } from 'node:http';
import type { AnswerSpec } from '../core/answer-spec.js';
import { batchService } from './batches/routes.js';
import { serve } from './exchange.js';
import { type EmulatorOptions, serviceOf, TEST_KEYS } from './options.js';
import type { QuotaSettings } from './quota.js';
import type { Stats } from './stats.js';

/** A running emulator. */
export interface Emulator {
  /** Value for PROMPTMILL_BASE_URL. */
  readonly url: string;
  readonly keys: readonly [string, string];
  /** Counts so far; also at `/stats`. */
  stats(): Stats;
  /** Changes the quota of every deployment; its windows restart. */
  setQuota(quota: Partial<QuotaSettings>): void;
  /** Stops listening and closes every connection, answered or not. */
  close(): Promise<void>;
}

/**
 * Starts the emulator on this machine.
 * @param told what the job that calls it reads from its answers; by default each prompt decides
 * @throws the error of `listen` (EADDRINUSE, EACCES, …) when the address is not available
 */
export async function startEmulator(
  options: EmulatorOptions = {},
  told: AnswerSpec = { kind: 'text' },
): Promise<Emulator> {
  const host = options.host ?? '127.0.0.1';
  const service = serviceOf(options, told);
  const batches = batchService(service);
  const server = createServer((request, response) => {
    void serve(request, response, service, batches);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, host, resolve);
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    keys: options.keys ?? TEST_KEYS,
    stats: () => service.received.stats,
    setQuota: (quota) => service.setQuota(quota),
    async close() {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      await batches.close();
    },
  };
}
