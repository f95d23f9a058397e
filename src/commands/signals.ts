import type { Halt } from '../core/halt.js';

export type Exit = (code: number) => void;

/** 128 plus the signal number, as in shells; `AbortSignal` comes from callers of the library only. */
export const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143, SIGPIPE: 141, AbortSignal: 130 } as const;

/**
 * The first signal halts the work; a second one ends the process at once, without losing anything.
 * @param onSecond prints before the process ends
 * @returns removes the handlers
 */
export function haltOnSignals(halt: Halt, exit: Exit, onSecond: () => void = () => {}): () => void {
  const onSignal = (signal: 'SIGINT' | 'SIGTERM'): void => {
    if (halt.reason?.kind === 'signal') {
      onSecond();
      exit(EXIT_OF_SIGNAL[signal]);
    }
    halt.request({ kind: 'signal', signal });
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  return () => {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  };
}
