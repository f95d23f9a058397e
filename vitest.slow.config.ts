import { tierConfig } from './test/tiers/tiers.js';

/** `npm run test:slow`. */
export default tierConfig('slow', {
  maxWorkers: 3,
  timeoutMs: 300_000,
  says: 'The browser, the docs, fleets, a million rows, packages.',
});
