import { describe, expect, it } from 'vitest';
import { OPERATIONS, operationOf } from '../../src/service/operation.js';
import type { Tier } from '../../src/service/response.js';
import { verdicts } from '../../src/service/verdict.js';
import { chatBody } from '../support/scripted-service.js';
import { gateway, model } from './verdict-table.js';

const operation = operationOf({ operation: 'chat' });

const judge = (status: number, body: unknown, tier?: Tier) =>
  verdicts(
    { kind: 'response', status, headers: {}, body: JSON.stringify(body), latency_ms: 12 },
    0,
    { prompts: 1, choices: 1, withLogprobs: false, operation, tier },
    2,
  )[0];

const LACKS: readonly (readonly [status: number, body: unknown])[] = [
  [429, model('resource_unavailable', 'Resource unavailable.')],
  [429, model('requests', 'Resource Unavailable', 'resource_unavailable')],
  [429, gateway('429', 'Resource unavailable: try again later.')],
  [429, gateway('429', 'Flex tier capacity exceeded.')],
  [498, gateway('capacity_exceeded', 'Flex tier capacity exceeded. Please try again later.')],
  [498, ''],
];

const UNKNOWN: readonly (readonly [status: number, body: unknown])[] = [
  [400, model('invalid_request_error', 'Invalid service_tier argument')],
  [400, model('invalid_request_error', 'Flex is not available for this model.')],
  [400, gateway('BadRequest', 'Unrecognized request argument supplied: service_tier')],
  [422, { error: 'unknown field service_tier', error_type: 'validation' }],
];

describe('the flex tier', () => {
  it.each(LACKS)('has no capacity: %i %j', (status, body) => {
    expect(judge(status, body, 'flex')).toMatchObject({
      kind: 'no_capacity',
      problem: { code: 'no_capacity' },
    });
    // The quota of others.
    if (status === 429)
      for (const tier of ['online', undefined] as const)
        expect(judge(status, body, tier)).toMatchObject({ kind: 'wait' });
  });

  it('has its quota as any other', () => {
    const limited = gateway('429', 'Requests have exceeded call rate limit. Please retry after 2 seconds.');
    expect(judge(429, limited, 'flex')).toMatchObject({ kind: 'wait', ms: 2_000 });
    const empty = model('insufficient_quota', 'You exceeded your current quota.', 'insufficient_quota');
    expect(judge(429, empty, 'flex')).toMatchObject({
      kind: 'stop',
      problem: { code: 'insufficient_quota' },
    });
  });

  it.each(UNKNOWN)('is not there, and the line to write is said: %i %j', (status, body) => {
    expect(judge(status, body, 'flex')).toMatchObject({
      kind: 'stop',
      problem: { code: 'not_supported' },
      hint: expect.stringContaining('service: { tier: online }'),
    });
  });

  it('is the one that the answer names; one that names none is paid as online', () => {
    const tierOf = (said: object, tier?: Tier) => {
      const verdict = judge(200, { ...chatBody(), ...said }, tier);
      return verdict?.kind === 'final' ? verdict.outcome.completion?.tier : verdict;
    };
    expect(tierOf({ service_tier: 'flex' }, 'flex')).toBe('flex');
    expect(tierOf({ service_tier: 'default' }, 'flex')).toBe('online');
    expect(tierOf({ service_tier: 'priority' }, 'online')).toBe('priority');
    expect(tierOf({ service_tier: null }, 'flex')).toBe('online');
    expect(tierOf({}, 'flex')).toBe('online');
    expect(tierOf({ service_tier: 'flex' })).toBeUndefined();
  });

  it('is of the chat operation only', () => {
    expect(OPERATIONS.filter(({ hasTiers }) => hasTiers).map(({ name }) => name)).toEqual(['chat']);
  });
});
