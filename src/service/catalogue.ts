/** What is known about the models behind deployments. Source: the service's documentation, sections 1 and 8. */

/** One model of the service. */
export interface Model {
  readonly id: string;
  /** Which operation the model answers; Promptmill calls the completions operation. */
  readonly type: 'completions' | 'conversation';
  /** Prompt and completion together, in tokens. */
  readonly contextWindow: number;
  /** Name of its tokenizer. */
  readonly encoding: 'cl100k_base' | 'p50k_base';
}

const MODELS: readonly Model[] = [
  // 4,097 is what the service's own error texts say for both.
  { id: 'lm-35-turbo-instruct', type: 'completions', contextWindow: 4097, encoding: 'cl100k_base' },
  { id: 'text-davinci-003', type: 'completions', contextWindow: 4097, encoding: 'p50k_base' },
  { id: 'lm-35-turbo', type: 'conversation', contextWindow: 4096, encoding: 'cl100k_base' },
  { id: 'lm-35-turbo-16k', type: 'conversation', contextWindow: 16_384, encoding: 'cl100k_base' },
  { id: 'lm-4', type: 'conversation', contextWindow: 8192, encoding: 'cl100k_base' },
  { id: 'lm-4-32k', type: 'conversation', contextWindow: 32_768, encoding: 'cl100k_base' },
];

/** The api-version values that are documented, and whether their responses carry content filter results. */
export const API_VERSIONS: ReadonlyMap<string, { readonly filters: boolean }> = new Map([
  ['2022-12-01', { filters: false }],
  ['2023-09-15-preview', { filters: true }],
]);

/** The model of a deployment, or `null` for a name of the user's own: such a deployment may hold any model. */
export function modelOf(deployment: string): Model | null {
  return MODELS.find((model) => model.id === deployment) ?? null;
}

/** What fits the completions operation, as part of a sentence. */
export const COMPLETIONS_MODELS = MODELS.filter((model) => model.type === 'completions')
  .map((model) => model.id)
  .join(' or ');

/** Why a deployment cannot be called, as one sentence, or `null`; asked before anything is sent. */
export function deploymentProblem(deployment: string): string | null {
  if (modelOf(deployment)?.type !== 'conversation') return null;
  return `${deployment} is a conversation model, and Promptmill calls the completions operation: use ${COMPLETIONS_MODELS}`;
}
