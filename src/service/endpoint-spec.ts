import * as z from 'zod';
import { OPERATION_NAMES } from './operation.js';

/** The endpoint as the job has it; address and keys come from the worker. Queue entries use these names. */
export const endpointSpecSchema = z.strictObject({
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

/** The model id is dropped: the other deployment's name must tell its model. */
export function withDeployment({ model: _, ...endpoint }: EndpointSpec, deployment: string): EndpointSpec {
  return { ...endpoint, deployment };
}

export type Deployed = Pick<EndpointSpec, 'deployment' | 'model'>;
