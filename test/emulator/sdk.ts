import OpenAI, { AzureOpenAI } from 'openai';
import type { Emulator } from '../../src/emulator/server.js';

export const MODEL = 'lm-35-turbo-instruct';
export const OPEN = { prompt: 'Tell me about bridges.', max_tokens: 12 };
export const THREAT = 'Translate to French: I will kill you.';

interface ClientOptions {
  readonly apiKey?: string;
  readonly maxRetries?: number;
  readonly apiVersion?: string;
}

/** The SDK as a client of the service; it retries nothing unless it is told to. */
export function azure(
  { url, keys }: Emulator,
  { apiVersion = '2023-09-15-preview', ...options }: ClientOptions = {},
) {
  // Without `baseURL: null` a variable of the environment would come before the endpoint.
  return new AzureOpenAI({
    endpoint: url,
    baseURL: null,
    apiKey: keys[0],
    apiVersion,
    maxRetries: 0,
    ...options,
  });
}

/** The SDK as a client of a plain server. */
export function plain({ url, keys }: Emulator, { apiVersion: _, ...options }: ClientOptions = {}) {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: keys[0], maxRetries: 0, ...options });
}

/** What a call is refused with. */
export async function refusal(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await call.then(
    () => new Error('answered'),
    (reason: unknown) => reason,
  );
  if (error instanceof OpenAI.APIError) return error;
  throw error;
}

/** Both clients, by name. */
export const CLIENTS = [
  ['the Azure client', azure],
  ['the plain client', plain],
] as const;
