import type { Environment } from '../config/environment.js';
import type { Settings } from '../config/settings.js';
import { assumedModel, modelBehind } from '../service/catalogue.js';
import { callUrl, type ServiceAccess } from '../service/endpoint.js';
import { KeyRing } from '../service/keys.js';
import { operationOf } from '../service/operation.js';
import { proxyFor } from '../service/proxy.js';

interface Service extends ServiceAccess {
  close(): Promise<void>;
}

/** @param say takes the message about the emulated model, if the job names none */
export async function service(
  settings: Settings,
  environment: Environment,
  say: (line: string) => void,
): Promise<Service> {
  if (settings.emulated) {
    const { endpoint } = settings;
    const { deployment } = endpoint;
    const known = modelBehind(endpoint);
    const model = (known ?? assumedModel(operationOf(endpoint))).id;
    if (known === null)
      say(`the emulator answers for ${deployment} as ${model} would; service.model names another model`);
    // Loaded only here: a run on the service does not need it.
    const { startEmulator } = await import('../emulator/server.js');
    const options = { deployments: { [deployment]: model }, modelPrefix: 'emulator:' };
    const emulator = await startEmulator(options, settings.answer);
    return {
      address: { baseUrl: emulator.url, segment: 'openai' },
      keys: new KeyRing(emulator.keys),
      close: () => emulator.close(),
    };
  }
  const place = { baseUrl: environment.baseUrl, segment: environment.segment };
  // Refuses a bad address before the input is read.
  const url = callUrl(place, settings.endpoint);
  const address = { ...place, proxy: settings.work ? proxyFor(url, environment.variable) : null };
  // A run that makes no calls needs no key, and should have none.
  const keys = new KeyRing(environment.keys, settings.work);
  return { address, keys, close: async () => {} };
}
