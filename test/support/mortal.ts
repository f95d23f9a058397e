import type { Halt } from '../../src/core/halt.js';
import { type Ledger, NO_ANSWER } from '../../src/store/ledger.js';
import type { Store } from '../../src/store/store.js';
import { disk } from './crashing-disk.js';

/**
 * A step of a process beside its steps on the disk: the process may die before it, or after it and before it hears what
 * came of it. To the dead nothing happens any more, and they hear `silence`.
 * @param halt ends what is left of the run of a dead process
 */
export async function mortally<T>(halt: Halt, work: () => Promise<T>, silence: T): Promise<T> {
  if (disk.dead) return silence;
  try {
    await disk.step(async () => {});
    const done = await work();
    await disk.step(async () => {});
    return done;
  } catch (error) {
    if (!disk.dead) throw error;
    halt.request({ kind: 'error', error });
    return silence;
  }
}

/** The store of a process that may die at each message to its ledger. The store itself lives on. */
export function mortalStore(own: Store, halt: Halt): Store {
  const { ledger } = own;
  const mortal: Ledger = {
    isShared: ledger.isShared,
    settled: ledger.settled,
    open: (...given) => mortally(halt, () => ledger.open(...given), false),
    write: (batch) =>
      mortally(
        halt,
        () => ledger.write(batch),
        batch.reservations.map(({ rows }) => ({ ...NO_ANSWER, rows: rows.map(() => 'unwanted') })),
      ),
    stop: (...given) => mortally(halt, () => ledger.stop(...given), undefined),
    forget: (...given) => mortally(halt, () => ledger.forget(...given), undefined),
    close: (run) => mortally(halt, () => ledger.close(run), undefined),
    progress: async (...given) => await ledger.progress(...given),
    waiting: async (run) => await ledger.waiting(run),
    deaths: async (run) => await ledger.deaths(run),
    outcomes: async (...given) => await ledger.outcomes(...given),
    interim: async (...given) => await ledger.interim(...given),
  };
  return { ...own, ledger: mortal };
}
