import { it } from 'vitest';
import { play } from '../queue/same-queue.js';
import { describeOn } from '../support/stores.js';

const OPERATIONS = 100_000;

describeOn('redis', 'the embedded queue, and one', (under) => {
  it('faults 36 and 44: are the same after very many random things: added twice, stalled, failed, taken back', {
    timeout: 900_000,
  }, async () => {
    const { target, open } = under();
    const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
    console.log(`SEED=${seed}`);
    await play({ store: await open(), url: target, seed, operations: OPERATIONS });
  });
});
