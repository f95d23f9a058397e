/** The clock of this process, set to another time; it goes on from there. Timers are left as they are. */
export class ShiftedClock {
  readonly #Real = Date;
  #offset = 0;

  constructor() {
    const Real = this.#Real;
    const now = (): number => Real.now() + this.#offset;
    globalThis.Date = new Proxy(Real, {
      construct: (target, args: unknown[], newTarget) =>
        Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
      get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
    });
  }

  set(time: string): void {
    this.#offset = this.#Real.parse(time) - this.#Real.now();
  }

  restore(): void {
    globalThis.Date = this.#Real;
  }
}
