import { expect, it } from 'vitest';
import { durationMs } from '../../src/config/job-schema.js';

it.each([
  ['90s', 90],
  ['30m', 1_800],
  ['8h', 28_800],
  ['1h30m', 5_400],
  ['1h2m3s', 3_723],
  ['0s', 0],
])('%s is %i seconds', (text, seconds) => {
  expect(durationMs(text)).toBe(seconds * 1000);
});
