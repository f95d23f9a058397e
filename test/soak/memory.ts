import { readFileSync } from 'node:fs';

export interface Peaks {
  readonly role: string;
  /** Processes that were seen. */
  readonly processes: number;
  /** In MB, of the first and of the second half of the time. */
  readonly halves: readonly [number, number];
}

/** Resident memory of processes, by their role in the run. */
export class MemoryWatch {
  readonly #looks = new Map<
    string,
    { readonly pid: number; readonly ms: number; readonly bytes: number }[]
  >();

  look(role: string, pid: number): void {
    let status: string;
    try {
      status = readFileSync(`/proc/${pid}/status`, 'utf8');
    } catch {
      // It has just ended.
      return;
    }
    const kib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
    const looks = this.#looks.get(role) ?? [];
    looks.push({ pid, ms: performance.now(), bytes: kib * 1024 });
    this.#looks.set(role, looks);
  }

  peaks(): Peaks[] {
    return [...this.#looks].map(([role, looks]) => {
      const times = looks.map(({ ms }) => ms);
      const middle = (Math.min(...times.slice(0, 1)) + Math.max(...times.slice(-1))) / 2;
      const peak = (some: typeof looks): number => some.reduce((most, { bytes }) => Math.max(most, bytes), 0);
      return {
        role,
        processes: new Set(looks.map(({ pid }) => pid)).size,
        halves: [
          Math.round(peak(looks.filter(({ ms }) => ms <= middle)) / 1e6),
          Math.round(peak(looks.filter(({ ms }) => ms > middle)) / 1e6),
        ],
      };
    });
  }
}
