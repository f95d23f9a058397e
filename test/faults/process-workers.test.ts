import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Child } from '../support/children.js';
import { describeEachFleet } from '../support/fleet.js';
import { completionBody } from '../support/scripted-service.js';
import { watchStore } from '../support/store-watch.js';

/** Of each worker. */
const CONCURRENCY = 4;
/** Shorter than a user's, so that a test need not wait for a minute; longer than a worker trusts what the ledger said. */
const LOCK_MS = 3_000;
const CHUNK = 3;
const ROWS = 200;
const CULPRIT = 53;

describeEachFleet('workers in processes of their own', (fleet, kind) => {
  const worker = (lockMs = LOCK_MS): Promise<Child> =>
    fleet().worker({ concurrency: CONCURRENCY, chunkSize: CHUNK, lockMs });

  /** A run whose calls are left to so many workers; all of them have as many calls in flight as they may. */
  async function begin(count: number, rows = ROWS) {
    const concurrency = count * CONCURRENCY;
    const trial = await fleet().begin({ rows, concurrency, chunkSize: CHUNK });
    const started: Child[] = [];
    for (let i = 0; i < count; i++) started.push(await worker());
    const running = trial.run('--no-work');
    await running.until(trial.called(rows / 5));
    await trial.fill(running);
    return { trial, running, started };
  }

  it('fault 41: when one of several is killed its rows finish with the others, and only its calls in flight are repeated', async (context) => {
    const { trial, running, started } = await begin(2);
    await started[0]?.kill('SIGKILL');
    trial.release();
    await trial.whole(running, { repeats: CONCURRENCY }, context);
  });

  it('fault 43: one that wakes after others have done its rows calls none of them again', async (context) => {
    const { trial, running, started } = await begin(2);
    const sleeper = started[0]?.pid ?? 0;
    process.kill(sleeper, 'SIGSTOP');
    trial.release();
    // The other has called every row, and those again that the sleeper had in flight. All but the last are answered.
    await running.until(trial.called(ROWS + CONCURRENCY));
    const watch = await watchStore(trial);
    // What the sleeper had in flight is counted as repeated by now, and is in flight no more.
    await running.until(watch.inFlight(1));
    await watch.close();
    process.kill(sleeper, 'SIGCONT');
    await trial.whole(running, { repeats: CONCURRENCY }, context);
  });

  it('fault 43: the only one wakes after its locks have run out, and repeats no call though its entries come back', async (context) => {
    // So few rows that the worker has room for another chunk than those it had when it fell asleep.
    const { trial, running, started } = await begin(1, 4 * CHUNK);
    const sleeper = started[0]?.pid ?? 0;
    const watch = await watchStore(trial);
    process.kill(sleeper, 'SIGSTOP');
    // The fault itself: a process that does nothing for longer than its locks last.
    await running.until(sleep(LOCK_MS + 500));
    process.kill(sleeper, 'SIGCONT');
    // Its calls are still in flight when it is given their chunk a second time. On PostgreSQL it is not: a lock
    // that ran out and that nobody has taken can be renewed there.
    if (kind === 'redis') await running.until(watch.takenAgain);
    await watch.close();
    trial.release();
    await trial.whole(running, { repeats: 0 }, context);
  });

  it('fault 44: of the rows beside one that ends every worker that calls it, all others are answered', async (context) => {
    let crashes = 0;
    let current: Child | null = null;
    const trial = await fleet().begin({
      rows: ROWS,
      concurrency: CONCURRENCY,
      chunkSize: CHUNK,
      script: async ({ prompt }) => {
        if (prompt !== `row ${CULPRIT}`) return { json: completionBody({ text: ` re ${prompt}` }) };
        crashes++;
        await current?.kill('SIGKILL');
        current = await worker(1_000);
        return 'hang';
      },
    });
    current = await worker(1_000);
    const running = trial.run('--no-work');
    await trial.whole(running, { repeats: () => crashes * CONCURRENCY, failed: [CULPRIT] }, context);
    expect(trial.work.records('out.csv')[CULPRIT - 1]).toMatchObject({ error_code: 'worker_crashed' });
  });
});
