import type { Halt } from '../halt.js';

/** Ends the process with an exit code. */
export type Exit = (code: number) => void;

/** 128 and the number of the signal, as shells have it; an `AbortSignal` comes from callers of the library only. */
export const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143, SIGPIPE: 141, AbortSignal: 130 } as const;

/**
 * The first signal halts the work; a second one ends the process at once, which loses nothing either.
 * @param onSecond says what there is to say before
 * @returns takes the handlers away again
 */
export function haltOnSignals(halt: Halt, exit: Exit, onSecond: () => void = () => {}): () => void {
  const onSignal = (signal: 'SIGINT' | 'SIGTERM'): void => {
    if (halt.reason?.kind === 'signal') {
      onSecond();
      exit(EXIT_OF_SIGNAL[signal]);
    }
    halt.pull({ kind: 'signal', signal });
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  return () => {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  };
}
