import { tierConfig } from './test/tiers/tiers.js';

/** `npm run test:slow`. */
export default tierConfig('slow', {
  maxWorkers: 3,
  timeoutMs: 300_000,
  first: ['project/docs.slow', 'project/package-managers.slow', 'render/page.slow', 'ops/web/page.slow'],
  says: 'The browser, the docs, fleets, a million rows, packages.',
});
