import { either } from '../core/errors.js';
import type { Deployed, EndpointSpec } from './endpoint-spec.js';
import { type ModelType, type Operation, operationOf, otherOperation } from './operation.js';

/** Model facts from the documentation of the service. */

export interface Model {
  readonly id: string;
  readonly type: ModelType;
  /** Prompt and completion together, in tokens. */
  readonly contextWindow: number;
  readonly encoding: 'cl100k_base' | 'p50k_base' | 'o200k_base';
}

export const MODELS: readonly [Model, ...Model[]] = [
  // The service's own error messages say 4,097 for both.
  { id: 'lm-35-turbo-instruct', type: 'completions', contextWindow: 4097, encoding: 'cl100k_base' },
  { id: 'text-davinci-003', type: 'completions', contextWindow: 4097, encoding: 'p50k_base' },
  { id: 'lm-35-turbo', type: 'conversation', contextWindow: 4096, encoding: 'cl100k_base' },
  { id: 'lm-35-turbo-16k', type: 'conversation', contextWindow: 16_384, encoding: 'cl100k_base' },
  { id: 'lm-4', type: 'conversation', contextWindow: 8192, encoding: 'cl100k_base' },
  { id: 'lm-4-32k', type: 'conversation', contextWindow: 32_768, encoding: 'cl100k_base' },
];

export const CALLABLE_MODEL_IDS = MODELS.map(({ id }) => id);

export const CALLABLE_MODELS = either(CALLABLE_MODEL_IDS);

const modelsOf = ({ models }: Operation): Model[] => MODELS.filter(({ type }) => type === models);

/** Assumed behind a deployment whose model is unknown. */
export const assumedModel = (operation: Operation): Model => modelsOf(operation)[0] ?? MODELS[0];

export const modelsFor = (operation: Operation): string => either(modelsOf(operation).map(({ id }) => id));

/** The documented api-version values, and whether their responses carry content filter results. */
export const API_VERSIONS: ReadonlyMap<string, { readonly filters: boolean }> = new Map([
  ['2022-12-01', { filters: false }],
  ['2023-09-15-preview', { filters: true }],
]);

/** Null for a custom name: such a deployment may hold any model. */
export function modelOf(deployment: string): Model | null {
  return MODELS.find((model) => model.id === deployment) ?? null;
}

/** The model the job names, else the one the deployment is named after. */
export const modelBehind = ({ deployment, model }: Deployed): Model | null => modelOf(model ?? deployment);

/** Why the operation does not take a model, worded to follow its name, or null. */
export function modelProblem(id: string, operation: Operation): string | null {
  const model = modelOf(id);
  if (model === null || model.type === operation.models) return null;
  return (
    `is a ${model.type} model, and the job calls the ${operation.name} operation: ` +
    `write service: { operation: ${otherOperation(operation)} }, or use ${modelsFor(operation)}`
  );
}

/** Why a deployment cannot be called, as a sentence, or null; checked before anything is sent. */
export function deploymentProblem(endpoint: EndpointSpec): string | null {
  const { deployment, model, style } = endpoint;
  // Servers of the other style name their own models.
  if (style === 'openai' || model !== undefined) return null;
  const problem = modelProblem(deployment, operationOf(endpoint));
  return problem && `${deployment} ${problem}`;
}
