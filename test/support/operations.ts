import type { OperationName } from '../../src/service/operation.js';
import type { StoreUnderTest } from './stores.js';

/** `service` of a job, by the operation that it calls. */
export const SERVICES = [
  { operation: 'completions', deployment: 'lm-35-turbo-instruct' },
  { operation: 'chat', deployment: 'lm-35-turbo' },
] as const satisfies readonly { operation: OperationName; deployment: string }[];

const [COMPLETIONS, CHAT] = SERVICES;

/**
 * The operations by turns over the stores: what a service does wrong is shown for both, and the store does not matter for
 * that, so no test has to run once more.
 */
export const serviceOn = ({ kind }: Pick<StoreUnderTest, 'kind'>): (typeof SERVICES)[number] =>
  kind === 'redis' ? COMPLETIONS : CHAT;
