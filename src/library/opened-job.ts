import type { Environment } from '../config/environment.js';
import type { NamedJob } from '../config/job-schema.js';
import { type RunFlags, type Settings, settle } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { deploymentProblem } from '../service/catalogue.js';
import { type EndpointSpec, withDeployment } from '../service/endpoint-spec.js';
import { isShared, SHARED_QUEUES } from '../store/open.js';

/** A job with its settings from the job file, the environment and the flags. */
export interface OpenedJob {
  readonly environment: Environment;
  readonly job: NamedJob;
  readonly settings: Settings;
}

/** @throws UsageError for a job that cannot run, whatever its input */
export function openedJob(job: NamedJob, environment: Environment, flags: RunFlags): OpenedJob {
  const settings = settle(job, environment, flags);
  const second = settings.onInvalid?.deployment ?? null;
  for (const { spec, key } of settings.endpoints)
    checkDeployment(key === null ? 'service.deployment' : `service.endpoints, ${spec.name}`, spec);
  if (second !== null && settings.endpoints.length === 1)
    checkDeployment('answer.on_invalid.deployment', withDeployment(settings.endpoint, second));
  assertReachable(settings);
  return { environment, job, settings };
}

function checkDeployment(field: string, endpoint: EndpointSpec): void {
  const problem = deploymentProblem(endpoint);
  if (problem !== null) throw new UsageError('conversation_model', `${field}: ${problem}`);
}

/** The queue must be of a kind that there is, and calls left to other processes must be reachable for them. */
function assertReachable({ work, emulated, queue }: Settings): void {
  const isForOthers = isShared(queue);
  if (work) return;
  if (emulated) {
    throw new UsageError(
      'no_work_emulated',
      '--no-work leaves the calls to other processes, and the emulator of --emulate is for this one only',
      'Leave out one of the two, or run `promptmill emulate` and point this command and `promptmill work` at it.',
    );
  }
  if (isForOthers) return;
  throw new UsageError(
    'queue_not_shared',
    '--no-work leaves the calls to other processes, and only this one can open the embedded queue',
    `Name a queue for all with --queue ${SHARED_QUEUES}, or leave out --no-work.`,
  );
}
