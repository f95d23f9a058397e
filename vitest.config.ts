import { tierConfig } from './test/tiers/tiers.js';

/** `npm test`. */
export default tierConfig('test', {
  // One more than the cores of CI: these tests wait for processes and servers a fifth of their time.
  maxWorkers: 3,
  timeoutMs: 120_000,
  first: ['run/run', 'store/ledger-file', 'run/llama-server', 'ops/schedule/schedule', 'store/open'],
  says: 'This takes one to two minutes on two cores. It starts and stops its own servers.',
});
