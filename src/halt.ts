import type { Fault } from './model.js';

/** Why a run ended before its last row. */
export type HaltReason =
  | { readonly kind: 'stop'; readonly fault: Fault }
  | { readonly kind: 'signal'; readonly signal: 'SIGINT' | 'SIGTERM' | 'SIGPIPE' | 'AbortSignal' }
  /** A defect, or a fault that Promptmill has no plan for: shown as it is. */
  | { readonly kind: 'error'; readonly error: unknown };

/** The run was halted before it had begun in earnest. */
class Halted extends Error {}

/** The one switch that stops a run. The first reason stands; everything in the run listens to it. */
export class Halt {
  readonly #controller = new AbortController();
  #reason: HaltReason | null = null;

  #tell: (reason: HaltReason) => void = () => {};

  /** Resolves when the run is halted. */
  readonly pulled = new Promise<HaltReason>((resolve) => {
    this.#tell = resolve;
  });

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get reason(): HaltReason | null {
    return this.#reason;
  }

  /** What is awaited, unless the run is halted before: for what may last as long as a store is away. @throws Halted */
  async orHalted<T>(awaited: Promise<T>): Promise<T> {
    awaited.catch(() => {});
    const halted = this.pulled.then(() => {
      throw new Halted();
    });
    return Promise.race([awaited, halted]);
  }

  pull(reason: HaltReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller.abort();
    this.#tell(reason);
  }
}
