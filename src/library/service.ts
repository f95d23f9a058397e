import type { JobEndpoint } from '../config/endpoints-schema.js';
import type { Environment } from '../config/environment.js';
import type { NamedJob } from '../config/job-schema.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { callUrl } from '../service/address.js';
import { assumedModel, modelBehind } from '../service/catalogue.js';
import type { ServedEndpoint, ServiceAccess } from '../service/endpoint.js';
import { mapped, type Several } from '../service/endpoint-spec.js';
import { KeyRing } from '../service/keys.js';
import { operationOf } from '../service/operation.js';
import { proxyFor } from '../service/proxy.js';
import type { ServedJob } from '../worker/fleet-worker.js';

interface Service {
  readonly endpoints: Several<ServedEndpoint>;
  close(): Promise<void>;
}

/** @param say takes the message about an emulated model, if the job names none */
export async function service(
  settings: Settings,
  environment: Environment,
  say: (line: string) => void,
): Promise<Service> {
  if (settings.emulated) return emulated(settings, say);
  const endpoints = mapped(settings.endpoints, (each) =>
    servedBy(each, accessTo(each, environment, settings.work)),
  );
  return { endpoints, close: async () => {} };
}

/**
 * What a worker serves of a job: the endpoints whose keys it has.
 * @throws UsageError for a bad address, and when it has the key of none
 */
export function servedJob(
  { endpoints, route, file = 'the job' }: NamedJob,
  environment: Environment,
): ServedJob & { readonly file: string; readonly without: readonly JobEndpoint[] } {
  const hasKey = (each: JobEndpoint): boolean => keysOf(each, environment).length > 0;
  const [first, ...others] = endpoints
    .filter(hasKey)
    .map((each) => servedBy(each, accessTo(each, environment, true)));
  const without = endpoints.filter((each) => !hasKey(each));
  if (first === undefined) {
    throw new UsageError(
      'key_missing',
      `${file}: ${variablesOf(without).join(' and ')} ${without.length === 1 ? 'is' : 'are'} not set`,
      'Set the key of each endpoint that this worker is to call.',
    );
  }
  const set = mapped(endpoints, ({ spec: { name, deployment }, baseUrl }) => ({
    ...{ name, deployment },
    address: { baseUrl: baseUrl ?? environment.baseUrl, segment: environment.segment },
  }));
  return { file, set, endpoints: [first, ...others], route, without };
}

export const variablesOf = (endpoints: readonly JobEndpoint[]): readonly string[] => [
  ...new Set(endpoints.map(({ key }) => key ?? 'PROMPTMILL_API_KEY')),
];

/** Each has an emulator of its own: deployments of one name may hold different models. */
async function emulated(
  { endpoints, answer, emulatedBatches: batches }: Settings,
  say: (line: string) => void,
): Promise<Service> {
  // Loaded only here: a run on the service does not need it.
  const { startEmulator } = await import('../emulator/server.js');
  const started = mapped(endpoints, async (each) => {
    const { deployment } = each.spec;
    const known = modelBehind(each.spec);
    const model = (known ?? assumedModel(operationOf(each.spec))).id;
    if (known === null)
      say(`the emulator answers for ${deployment} as ${model} would; service.model names another model`);
    const options = { deployments: { [deployment]: model }, modelPrefix: 'emulator:', batches };
    const { url, keys, close } = await startEmulator(options, answer);
    const address = { baseUrl: url, segment: 'openai' };
    return { close, served: servedBy(each, { address, keys: new KeyRing(keys) }) };
  });
  const [first, ...others] = await Promise.all(started);
  return {
    endpoints: mapped([first, ...others], ({ served }) => served),
    close: async () => void (await Promise.all([first, ...others].map(({ close }) => close()))),
  };
}

const servedBy = (
  { spec: { name, deployment }, quota }: JobEndpoint,
  access: ServiceAccess,
): ServedEndpoint => ({
  ...access,
  ...{ name, deployment, quota },
});

/** @throws UsageError for a bad address, before the input is read, and for a missing key */
function accessTo(
  { spec, baseUrl, key }: JobEndpoint,
  environment: Environment,
  work: boolean,
): ServiceAccess {
  const place = { baseUrl: baseUrl ?? environment.baseUrl, segment: environment.segment };
  const url = callUrl(place, spec);
  const address = { ...place, proxy: work ? proxyFor(url, environment.variable) : null };
  // A run that makes no calls needs no key, and should have none.
  const keys = work || key === null ? keysOf({ key }, environment) : [];
  return { address, keys: new KeyRing(keys, work, key ?? undefined) };
}

const keysOf = ({ key }: Pick<JobEndpoint, 'key'>, { keys, secret }: Environment): readonly string[] =>
  key === null ? keys : [secret(key) ?? []].flat();
