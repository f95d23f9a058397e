import type { Running } from './promptmill.js';

/** One line of the log of `serve`. */
interface Line {
  readonly msg: string;
  readonly url?: string;
}

/** `promptmill serve` as a process, with what it logs. */
export class Serve {
  readonly lines: Line[] = [];
  #wake: () => void = () => {};
  #text = '';

  constructor(readonly running: Running) {
    running.process.stderr?.on('data', (piece: string) => {
      const parts = (this.#text + piece).split('\n');
      this.#text = parts.pop() ?? '';
      for (const part of parts) if (part.startsWith('{')) this.lines.push(JSON.parse(part));
      this.#wake();
    });
  }

  logged(pattern: RegExp): Line[] {
    return this.lines.filter(({ msg }) => pattern.test(msg));
  }

  /** Resolves when the log has so many lines that fit. @throws Error when it ends before */
  async logs(pattern: RegExp, count = 1): Promise<void> {
    const ended = this.running.ended.then(({ code, stderr }) => {
      throw new Error(`serve ended with ${code} before it logged ${pattern}:\n${stderr}`);
    });
    while (this.logged(pattern).length < count) {
      const more = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([more, ended]);
    }
    ended.catch(() => {});
  }
}
