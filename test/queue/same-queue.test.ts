import { it } from 'vitest';
import { describeOn } from '../support/stores.js';
import { play } from './same-queue.js';

describeOn('redis', 'the embedded queue, and one', (under) => {
  it('are the same after the same random things', async () => {
    const { target, open } = under();
    const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
    console.log(`SEED=${seed}`);
    await play({
      store: await open(),
      url: target,
      seed,
      // A hundred times as many in `test/faults/same-queue.test.ts`.
      operations: 1_000,
    });
  });
});
