import { either } from '../errors.js';
import type { Deployed, EndpointSpec } from './endpoint-spec.js';
import { type ModelType, OPERATIONS, type Operation } from './operation.js';

/** What is known about the models behind deployments, out of the documentation of the service. */

/** One model of the service. */
export interface Model {
  readonly id: string;
  /** Which operation the model answers. */
  readonly type: ModelType;
  /** Prompt and completion together, in tokens. */
  readonly contextWindow: number;
  /** Name of its tokenizer. */
  readonly encoding: 'cl100k_base' | 'p50k_base';
}

const MODELS: readonly [Model, ...Model[]] = [
  // 4,097 is what the service's own error texts say for both.
  { id: 'lm-35-turbo-instruct', type: 'completions', contextWindow: 4097, encoding: 'cl100k_base' },
  { id: 'text-davinci-003', type: 'completions', contextWindow: 4097, encoding: 'p50k_base' },
  { id: 'lm-35-turbo', type: 'conversation', contextWindow: 4096, encoding: 'cl100k_base' },
  { id: 'lm-35-turbo-16k', type: 'conversation', contextWindow: 16_384, encoding: 'cl100k_base' },
  { id: 'lm-4', type: 'conversation', contextWindow: 8192, encoding: 'cl100k_base' },
  { id: 'lm-4-32k', type: 'conversation', contextWindow: 32_768, encoding: 'cl100k_base' },
];

/** The model to assume behind a deployment of which it is not known. */
export const ASSUMED_MODEL = MODELS[0];

const idsFor = ({ models }: Operation): string[] =>
  MODELS.filter(({ type }) => type === models).map(({ id }) => id);

/** IDs of the models that answer an operation. */
export const CALLABLE_MODEL_IDS = OPERATIONS.flatMap(idsFor);

/** The same of one operation, as part of a sentence. */
export const modelsFor = (operation: Operation): string => either(idsFor(operation));

/** The same of all, as part of a sentence. */
export const CALLABLE_MODELS = either(CALLABLE_MODEL_IDS);

/** The api-version values that are documented, and whether their responses carry content filter results. */
export const API_VERSIONS: ReadonlyMap<string, { readonly filters: boolean }> = new Map([
  ['2022-12-01', { filters: false }],
  ['2023-09-15-preview', { filters: true }],
]);

/** The model of a deployment, or `null` for a name of the user's own: such a deployment may hold any model. */
export function modelOf(deployment: string): Model | null {
  return MODELS.find((model) => model.id === deployment) ?? null;
}

/** The model behind an endpoint: the one that the job names, else the one that the deployment is named after. */
export const modelBehind = ({ deployment, model }: Deployed): Model | null => modelOf(model ?? deployment);

/** Why a model cannot be called, as words that go after its name, or `null`. */
export function modelProblem(id: string): string | null {
  const model = modelOf(id);
  if (model === null) return `must be ${CALLABLE_MODELS}, or be left away for any other`;
  if (CALLABLE_MODEL_IDS.includes(id)) return null;
  const called = either(OPERATIONS.map(({ name }) => name));
  return `is a ${model.type} model, and Promptmill calls the ${called} operation: use ${CALLABLE_MODELS}`;
}

/** Why a deployment cannot be called, as one sentence, or `null`; asked before anything is sent. */
export function deploymentProblem({ deployment, model, style }: EndpointSpec): string | null {
  // Servers of the other style have models of their own, under any name.
  if (style === 'openai' || model !== undefined || modelOf(deployment) === null) return null;
  const problem = modelProblem(deployment);
  return problem && `${deployment} ${problem}`;
}
