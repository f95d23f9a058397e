import type { Fault } from './model.js';

/** Why a run ended before its last row. */
export type HaltReason =
  | { readonly kind: 'stop'; readonly fault: Fault }
  | { readonly kind: 'signal'; readonly signal: 'SIGINT' | 'SIGTERM' | 'SIGPIPE' }
  /** A defect, or a fault that Promptmill has no plan for: shown as it is. */
  | { readonly kind: 'error'; readonly error: unknown };

/** The run was halted before it had begun in earnest. */
class Halted extends Error {}

/** The one switch that stops a run. The first reason stands; everything in the run listens to its signal. */
export class Halt {
  readonly #controller = new AbortController();
  #reason: HaltReason | null = null;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get reason(): HaltReason | null {
    return this.#reason;
  }

  /** Calls back once when the run is halted, at once when it is already. */
  onPull(callback: () => void): void {
    if (this.#reason !== null) callback();
    else this.signal.addEventListener('abort', callback, { once: true });
  }

  /** What is awaited, unless the run is halted before: for what may last as long as a store is away. @throws Halted */
  async orHalted<T>(awaited: Promise<T>): Promise<T> {
    const halted = new Promise<never>((_, reject) => {
      this.onPull(() => reject(new Halted()));
    });
    awaited.catch(() => {});
    return Promise.race([awaited, halted]);
  }

  pull(reason: HaltReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller.abort();
  }
}
