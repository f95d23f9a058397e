import { parseStoreAddress } from './address.js';
import type { Board } from './board.js';
import { FileBoard } from './embedded/board.js';
import { openStore } from './open.js';
import type { Store } from './store.js';

/** A board to look at. */
export interface OpenBoard extends Pick<Store, 'describe' | 'close'> {
  readonly board: Board;
}

/**
 * Opens the board of a store for those who only look on. That of the embedded store can be read while a run has the
 * store itself, which one process only may open.
 * @throws UsageError as `openStore` does
 */
export async function openBoard(
  target: string,
  options: { readonly stateDir: string; readonly onWarning: (message: string) => void },
): Promise<OpenBoard> {
  if (parseStoreAddress(target).kind !== 'embedded') return openStore(target, options);
  const { stateDir } = options;
  return {
    board: new FileBoard(stateDir),
    describe: () => stateDir,
    close: async () => {},
  };
}
