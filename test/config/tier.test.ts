import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readJobFile } from '../../src/config/job-file.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-tier-'));
afterAll(() => rmSync(folder, { recursive: true }));

function jobOf(service: string, more = '') {
  const path = join(folder, 'job.yaml');
  writeFileSync(path, `input: { path: a.csv }\nservice: { ${service} }\n${more}\n`);
  return readJobFile(path);
}

function said(service: string, more?: string): string {
  try {
    jobOf(service, more);
  } catch (error) {
    return String((error as Error).message).replaceAll(`${folder}/`, '');
  }
  return '';
}

const CHAT = 'operation: chat, deployment: d';

describe('service.tier', () => {
  it.each([
    [CHAT, null, null, 120],
    [`${CHAT}, tier: online`, null, null, 120],
    [`${CHAT}, tier: flex`, { forMs: null }, null, 900],
    [`${CHAT}, tier: { flex: 20m }`, { forMs: 1_200_000 }, null, 900],
    [`${CHAT}, tier: batch`, null, { forMs: null }, 120],
    ['deployment: d, tier: { batch: 0s }', null, { forMs: 0 }, 120],
    [`${CHAT}, tier: { batch: 6h, flex: 20m }`, { forMs: 1_200_000 }, { forMs: 21_600_000 }, 900],
  ])('of { %s }', (service, flex, batch, seconds) => {
    const job = jobOf(service);
    expect(job.flex).toEqual(flex);
    expect(job.batch).toEqual(batch);
    expect(job.endpoint.timeoutMs).toBe(1000 * seconds);
    expect(jobOf(service, 'limits: { timeout_seconds: 30 }').endpoint.timeoutMs).toBe(30_000);
  });

  const A_TIER =
    'must be online, flex, batch, or longest times in them such as { batch: 6h } or { batch: 6h, flex: 20m }';
  it.each([
    [`${CHAT}, tier: cheap`, `service.tier ${A_TIER}, got "cheap"`],
    [`${CHAT}, tier: 5`, `service.tier ${A_TIER}, got 5`],
    [`${CHAT}, tier: {}`, `service.tier ${A_TIER}`],
    [
      `${CHAT}, tier: { flex: soon }`,
      'service.tier.flex must be a duration such as 90s, 30m or 8h, got "soon"',
    ],
    [
      'deployment: d, tier: flex',
      'service.tier needs service: { operation: chat }: text completions have no flex tier, so take it out, got "flex"',
    ],
    [
      'tier: flex, endpoints: [{ name: a, base_url: "https://a.example", deployment: d, key: A_KEY, operation: chat }]',
      'service.tier cannot stand beside service.endpoints: take it out, got "flex"',
    ],
    [
      'endpoints: [{ name: a, base_url: "https://a.example", deployment: d, key: A_KEY, operation: chat, tier: flex }]',
      'unknown field service.endpoints.0.tier',
    ],
  ])('{ %s } is refused with its line', (service, message) => {
    expect(said(service)).toContain(`job.yaml:2: ${message}`);
  });

  it.each([
    ['parameters: { service_tier: default }', 'parameters.service_tier cannot stand beside service.tier'],
    [
      'parameters: { extra_body: { service_tier: default } }',
      'parameters.service_tier cannot stand beside service.tier',
    ],
    ['row_parameters: [service_tier]', 'row_parameters cannot stand beside service.tier'],
    [
      'prices: { prompt: 1, completion: 1, flex: 50 }',
      'prices.flex must be a number from 0 to 1, got 50: write 0.5 for 50 %',
    ],
  ])('beside %s is refused', (more, message) => {
    expect(said(`${CHAT}, tier: flex`, more)).toContain(message);
  });

  it('takes factors for the prices', () => {
    const prices = { prompt: 1, completion: 2, flex: 0.4, batch: 0.5 };
    expect(jobOf(CHAT, `prices: ${JSON.stringify(prices)}`).prices).toEqual(prices);
  });
});
