import * as z from 'zod';
import { OPERATION_NAMES } from './operation.js';

/** An endpoint as the job has it; address and keys come from the worker. Queue entries use these names. */
export const endpointSpecSchema = z.strictObject({
  /** Unique in its job. The only endpoint of a job has the name of its deployment. */
  name: z.string().min(1),
  operation: z.enum(OPERATION_NAMES),
  deployment: z.string().min(1),
  /** Model id, when the job names one; for counting tokens. */
  model: z.string().min(1).optional(),
  apiVersion: z.string().min(1),
  /** `deployments`: deployment in the path, key in `api-key`. `openai`: bearer key, model in the body. */
  style: z.enum(['deployments', 'openai']),
  /** In milliseconds. */
  timeoutMs: z.number().positive(),
});
export type EndpointSpec = Readonly<z.output<typeof endpointSpecSchema>>;

/** A list with at least one entry. */
export type Several<T> = readonly [T, ...T[]];

export const mapped = <T, U>([first, ...others]: Several<T>, to: (each: T) => U): Several<U> => [
  to(first),
  ...others.map(to),
];

/** The model id is dropped: the other deployment's name must tell its model. */
export function withDeployment({ model: _, ...endpoint }: EndpointSpec, deployment: string): EndpointSpec {
  return { ...endpoint, name: deployment, deployment };
}

export type Deployed = Pick<EndpointSpec, 'deployment' | 'model'>;

/** As the summary has them. */
export const deploymentsOf = (endpoints: readonly Pick<EndpointSpec, 'deployment'>[]): string =>
  endpoints.map(({ deployment }) => deployment).join(', ');
