import type { EmulatorOptions } from '../emulator/options.js';
import type { Emulator } from '../emulator/server.js';

/**
 * Starts an emulator of the service on this machine, for tests and rehearsals.
 * @param options every one has a default: no latency, no quota, a free port of the loopback
 * @returns the address for `PROMPTMILL_BASE_URL`, its keys, and `close()`
 * @throws the error of `listen` (EADDRINUSE, EACCES, …) when the address is not available
 */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const emulator = await import('../emulator/server.js');
  return emulator.startEmulator(options);
}
