import type { Problem } from './model.js';

export type HaltReason =
  | { readonly kind: 'stop'; readonly problem: Problem }
  | { readonly kind: 'signal'; readonly signal: 'SIGINT' | 'SIGTERM' | 'SIGPIPE' | 'AbortSignal' }
  /** A defect, or an unexpected error: shown unchanged. */
  | { readonly kind: 'error'; readonly error: unknown };

/** The run was halted before its calls began. */
class Halted extends Error {}

/** The switch that stops a run. The first reason stays. */
export class Halt {
  readonly #controller = new AbortController();
  #reason: HaltReason | null = null;

  #tell: (reason: HaltReason) => void = () => {};

  readonly requested = new Promise<HaltReason>((resolve) => {
    this.#tell = resolve;
  });

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get reason(): HaltReason | null {
    return this.#reason;
  }

  /** For waits that may last as long as a store is unreachable. @throws Halted */
  async orHalted<T>(awaited: Promise<T>): Promise<T> {
    awaited.catch(() => {});
    const halted = this.requested.then(() => {
      throw new Halted();
    });
    return Promise.race([awaited, halted]);
  }

  request(reason: HaltReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller.abort();
    this.#tell(reason);
  }
}
