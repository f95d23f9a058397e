import { InvalidArgumentError } from 'commander';
import { type Environment, readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import type { Job } from '../config/job-schema.js';
import { type RunFlags, type Settings, settle } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { deploymentProblem } from '../service/catalogue.js';
import { type EndpointSpec, withDeployment } from '../service/endpoint-spec.js';

/** A job as its file, the environment and the command line say together. */
export interface OpenedJob {
  readonly environment: Environment;
  readonly job: Job;
  readonly settings: Settings;
}

/** @throws UsageError for a job that cannot be run, whatever its input */
export function openJob(path: string, flags: RunFlags): OpenedJob {
  const environment = readEnvironment(process.env);
  const job = readJobFile(path);
  const settings = settle(job, environment, flags);
  const second = settings.onInvalid?.deployment ?? null;
  checkDeployment('service.deployment', settings.endpoint);
  if (second !== null)
    checkDeployment('answer.on_invalid.deployment', withDeployment(settings.endpoint, second));
  return { environment, job, settings };
}

function checkDeployment(field: string, endpoint: EndpointSpec): void {
  const problem = deploymentProblem(endpoint);
  if (problem !== null) throw new UsageError('conversation_model', `${field}: ${problem}`);
}

/** Reads the value of an option that counts something. */
export function wholeNumber(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value);
  throw new InvalidArgumentError(`must be a whole number of at least 1, got ${value}`);
}
