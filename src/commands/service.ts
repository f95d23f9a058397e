import type { Environment } from '../config/environment.js';
import type { Settings } from '../config/settings.js';
import { startEmulator } from '../emulator/server.js';
import type { ServiceAddress } from '../queue/caller.js';
import { KeyRing } from '../service/keys.js';
import { completionsUrl } from '../service/request.js';

/** What answers the calls of one run. */
export interface Service {
  readonly address: ServiceAddress;
  readonly keys: KeyRing;
  close(): Promise<void>;
}

/** The real service, out of the environment, or an emulator that lives as long as this run. */
export async function service(settings: Settings, environment: Environment): Promise<Service> {
  if (settings.emulated) {
    const emulator = await startEmulator();
    return {
      address: { baseUrl: emulator.url, segment: 'openai' },
      keys: new KeyRing(emulator.keys),
      close: () => emulator.close(),
    };
  }
  const address = { baseUrl: environment.baseUrl, segment: environment.segment };
  // Refuses a bad address now, before the input is read.
  completionsUrl({ ...address, ...settings.service });
  // Who leaves the calls to others needs no key, and should have none.
  const keys = new KeyRing(environment.keys, settings.work);
  return { address, keys, close: async () => {} };
}
