import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Child } from '../support/children.js';
import { describeFleet } from '../support/fleet.js';
import { completionBody } from '../support/scripted-service.js';
import { watchStore } from '../support/store-watch.js';
import { unknownAfter } from '../support/unknown.js';

/** Of each worker. */
const CONCURRENCY = 4;
/** So long that only the silence of a worker can give its rows to another, in milliseconds. */
const HOUR_MS = 3_600_000;
/** Shorter than a user's, so that a test need not wait for a minute; longer than a worker trusts what the ledger said. */
const LOCK_MS = 3_000;
const CHUNK = 3;
const ROWS = 200;
const CULPRIT = 53;

/** How others come to the rows of one that is killed or frozen. */
const WAYS = [
  { way: 'locks', when: 'when its locks have run out' },
  { way: 'silence', when: 'when it is silent, long before its locks run out' },
] as const;

describeFleet('workers in processes of their own', (fleet) => {
  const worker = (lockMs = LOCK_MS): Promise<Child> =>
    fleet().worker({ concurrency: CONCURRENCY, chunkSize: CHUNK, lockMs });

  /** One that says that it lives, and whose locks do not run out within the test. */
  async function heardWorker(): Promise<Child> {
    const heard = await fleet().fleetWorker({ concurrency: CONCURRENCY, lockMs: HOUR_MS });
    expect(await heard.line()).toBe('taking rows of lm-35-turbo-instruct');
    return heard;
  }

  /** A run whose calls are left to so many workers; all of them have as many calls in flight as they may. */
  async function begin(count: number, way: 'locks' | 'silence', rows = ROWS) {
    const concurrency = count * CONCURRENCY;
    const trial = await fleet().begin({ rows, concurrency, chunkSize: CHUNK });
    trial.hold();
    const running = trial.run('--no-work');
    const started: Child[] = [];
    for (let i = 0; i < count; i++) started.push(await (way === 'locks' ? worker() : heardWorker()));
    await running.until(trial.called(concurrency));
    return { trial, running, started };
  }

  for (const { way, when } of WAYS) {
    it(`fault 41: when one of several is killed its rows go to the others ${when}, and only its calls in flight are repeated`, async (context) => {
      const { trial, running, started } = await begin(2, way);
      await started[0]?.kill('SIGKILL');
      trial.release();
      await trial.whole(running, { repeats: CONCURRENCY }, context);
    });

    it(`fault 43: others do the rows of one that is frozen ${when}, and it calls none of them again`, async (context) => {
      const { trial, running, started } = await begin(2, way);
      const sleeper = started[0]?.pid ?? 0;
      process.kill(sleeper, 'SIGSTOP');
      trial.release();
      // The other has called every row, and those again that the sleeper had in flight. All but the last are answered.
      await running.until(trial.called(ROWS + CONCURRENCY));
      const watch = await watchStore(trial);
      // What the sleeper had in flight is counted as repeated by now, and is in flight no more.
      await running.until(watch.inFlight(1));
      process.kill(sleeper, 'SIGCONT');
      if (way === 'silence') await running.until(watch.awake(sleeper));
      await watch.close();
      await trial.whole(running, { repeats: CONCURRENCY }, context);
    });
  }

  it.for([
    { answers: 'later', isAnswered: false },
    { answers: 'already', isAnswered: true },
  ])(
    'fault 43: one that wakes when others have just been given its rows leaves to them what it has not called; its calls are answered $answers',
    async ({ isAnswered }, context) => {
      const { trial, running, started } = await begin(2, 'silence');
      const sleeper = started[0]?.pid ?? 0;
      const watch = await watchStore(trial);
      process.kill(sleeper, 'SIGSTOP');
      await running.until(watch.takenFrom(sleeper));
      // Nothing is answered yet. One that comes takes what was given back, and calls first what the sleeper has in flight.
      await heardWorker();
      await running.until(trial.called(3 * CONCURRENCY));
      if (isAnswered) trial.release();
      process.kill(sleeper, 'SIGCONT');
      await running.until(watch.awake(sleeper));
      await watch.close();
      trial.release();
      await trial.whole(running, { repeats: CONCURRENCY }, context);
    },
  );

  it('fault 43: the only one wakes after its locks have run out, and repeats no call though its entries come back', async (context) => {
    // So few rows that the worker has room for another chunk than those it had when it fell asleep.
    const { trial, running, started } = await begin(1, 'locks', 4 * CHUNK);
    const sleeper = started[0]?.pid ?? 0;
    const watch = await watchStore(trial);
    process.kill(sleeper, 'SIGSTOP');
    // The fault itself: a process that does nothing for longer than its locks last.
    await running.until(sleep(LOCK_MS + 500));
    process.kill(sleeper, 'SIGCONT');
    // Its calls are still in flight when it is given their chunk a second time.
    await running.until(watch.takenAgain);
    await watch.close();
    trial.release();
    await trial.whole(running, { repeats: 0 }, context);
  });

  it('fault 44: of the rows beside one that ends every worker that calls it, all others are answered', async (context) => {
    let crashes = 0;
    /** The one that works, or that is about to: it can call the row before the test has heard that it is ready. */
    let current: Promise<Child>;
    const trial = await fleet().begin({
      rows: ROWS,
      concurrency: CONCURRENCY,
      chunkSize: CHUNK,
      script: async ({ prompt }) => {
        if (prompt !== `row ${CULPRIT}`) return { json: completionBody({ text: ` re ${prompt}` }) };
        crashes++;
        await (await current).kill('SIGKILL');
        current = worker(1_000);
        await current;
        return 'hang';
      },
    });
    current = worker(1_000);
    await current;
    const running = trial.run('--no-work');
    await trial.whole(
      running,
      { repeats: () => crashes * unknownAfter(CONCURRENCY), failed: [CULPRIT] },
      context,
    );
    expect(trial.work.records('out.csv')[CULPRIT - 1]).toMatchObject({ error_code: 'worker_crashed' });
  });
});
