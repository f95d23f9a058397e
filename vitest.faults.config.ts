import { tierConfig } from './test/tiers/tiers.js';

/** `npm run test:faults`. */
export default tierConfig('faults', {
  // More than the cores of CI: many of these tests wait for something that is away or asleep.
  maxWorkers: 5,
  timeoutMs: 300_000,
  first: [
    'process-workers',
    'million-rows',
    'clock-changes',
    'deaths',
    'store-frozen',
    'one-writer',
    'process-asleep',
    'busy-server',
    'lost-entries',
    'crash-run',
    'quota-for-ever',
    'fairness',
    'batch-kill',
    'hold',
    'verdict-table',
  ].map((name) => `faults/${name}`),
  says: 'Processes, servers and disks are killed, frozen and filled, all of them started by the tests.',
});
