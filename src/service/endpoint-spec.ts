import * as z from 'zod';

/**
 * What a job says of the endpoint that it calls: all that a worker needs besides the address and the keys, which are in the
 * environment of its process. It travels in queue entries under these names.
 */
export const endpointSpecSchema = z.strictObject({
  /** Name of the deployment. */
  deployment: z.string().min(1),
  /** ID of the model behind it, only where the job names it; for counting tokens. */
  model: z.string().min(1).optional(),
  apiVersion: z.string().min(1),
  /**
   * Shape of the endpoint. `deployments`: the deployment in the path, the key in an `api-key` header. `openai`: servers of
   * the same shape, with bearer authentication and the model in the body.
   */
  style: z.enum(['deployments', 'openai']),
  /** Longest time of one call, in milliseconds. */
  timeoutMs: z.number().positive(),
});
export type EndpointSpec = Readonly<z.output<typeof endpointSpecSchema>>;

/** The same endpoint with another deployment, whose model its name tells, if anything. */
export function withDeployment({ model: _, ...endpoint }: EndpointSpec, deployment: string): EndpointSpec {
  return { ...endpoint, deployment };
}

/** What tells which model is behind an endpoint. */
export type Deployed = Pick<EndpointSpec, 'deployment' | 'model'>;
