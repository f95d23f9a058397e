import { setTimeout as sleep } from 'node:timers/promises';
import { it, type TestContext } from 'vitest';
import type { Server } from '../support/servers.js';
import { describeRedis } from '../support/stores.js';
import { trialOn } from '../support/trial.js';

/** The fault itself: the store is killed so often, with so many milliseconds between. */
const KILLS = 15;
const BETWEEN_MS = 2_000;

type Start = () => Promise<Server>;

/** Kills the store again and again under a run whose calls last longer than all the kills. */
const killAgainAndAgain = (start: Start, context: TestContext): Promise<void> =>
  trialOn(start, { rows: 1_500, latencyMs: 100 }, async (trial, server) => {
    const running = trial.run();
    await running.until(trial.called(50));
    let inFlight = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      inFlight += trial.inFlight;
      await server.restart();
      await running.until(sleep(BETWEEN_MS));
    }
    await trial.whole(running, { repeats: inFlight }, context);
  });

/** Kills the store while calls are in flight, and answers them when it is back, or while it is away. */
const killUnderCalls = (start: Start, answer: 'away' | 'back', context: TestContext): Promise<void> =>
  trialOn(start, { rows: 200 }, async (trial, server) => {
    const running = trial.run();
    await running.until(trial.called(50));
    await trial.fill(running);
    if (answer === 'away') {
      await server.kill('SIGKILL');
      trial.release();
      while (trial.inFlight > 0) await sleep(10);
    }
    await server.restart();
    trial.release();
    await trial.whole(running, { repeats: 0 }, context);
  });

describeRedis('a store that is killed', (start) => {
  it.concurrent('fault 30: in the middle of calls and back at once, costs no call', (context) =>
    killUnderCalls(start, 'back', context));

  it.concurrent('fault 30: what is answered while it is away is kept, and costs no call', (context) =>
    killUnderCalls(start, 'away', context));

  it.concurrent('fault 30: every two seconds for half a minute, costs no more than the calls in flight', (context) =>
    killAgainAndAgain(start, context));
});
