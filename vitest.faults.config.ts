import { tierConfig } from './test/tiers/tiers.js';

/** `npm run test:faults`. */
export default tierConfig('faults', {
  // More than the cores of CI: many of these tests wait for something that is away or asleep.
  maxWorkers: 5,
  timeoutMs: 300_000,
  says: 'Processes, servers and disks are killed, frozen and filled, all of them started by the tests.',
});
