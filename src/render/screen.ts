import { cells } from './terminal-text.js';

/** A terminal, as far as lines are drawn on it. */
export interface TerminalStream extends NodeJS.WritableStream {
  readonly columns?: number;
  readonly rows?: number;
}

/** Whether lines can be drawn on a stream: a terminal that obeys escape codes. */
export const canDraw = (stream: { readonly isTTY?: boolean }): boolean =>
  stream.isTTY === true && process.env['TERM'] !== 'dumb';

const START = '\r';
const CLEAR_RIGHT = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
const up = (lines: number): string => (lines > 0 ? `\u001b[${lines}A` : '');

/**
 * Lines at the bottom of a terminal that are drawn again in their place, each time in one write, so that nothing flickers. What
 * others write meanwhile, such as the log, stands above them. The cursor rests at the beginning of the last line and stays
 * visible: a process that is killed leaves nothing behind that has to be mended.
 */
export class Screen {
  /** Cells of each line as it was drawn; none while nothing is there. */
  #drawn: readonly number[] = [];
  #lines: readonly string[] = [];
  readonly #write: (text: string) => boolean;
  readonly #restore: () => void;
  readonly #redraw = (): void => this.update();
  /** Ctrl-Z: the shell writes where the lines were, and after `fg` they are drawn below that. */
  readonly #suspend = (): void => {
    this.#clear();
    process.kill(process.pid, 'SIGSTOP');
  };

  /** Also where the process ends in the middle of the run. */
  readonly #clear = (): void => {
    this.#write(this.#toTop() + CLEAR_BELOW);
    this.#drawn = [];
  };

  /** @param lines what to show in so many cells; none of them may be wider */
  constructor(
    private readonly stream: TerminalStream,
    private readonly lines: (width: number) => readonly string[],
  ) {
    const write = stream.write;
    this.#write = write.bind(stream);
    this.#restore = () => {
      stream.write = write;
    };
    stream.write = (text: string | Uint8Array, ...more: readonly unknown[]) => {
      const isShown = this.above(Buffer.from(text).toString());
      const done = more.at(-1);
      if (typeof done === 'function') done();
      return isShown;
    };
    stream.on('resize', this.#redraw);
    process.on('SIGTSTP', this.#suspend).on('exit', this.#clear);
    this.update();
  }

  /** Draws what there is to show now. */
  update(): void {
    const top = this.#toTop();
    // One cell stays free: a line that fills the terminal makes some of them wrap.
    const lines = this.lines((this.stream.columns || 80) - 1);
    // Lines above the upper edge could not be drawn again.
    this.#lines = lines.slice(0, Math.max(1, (this.stream.rows || lines.length + 1) - 1));
    this.#write(top + this.#frame());
  }

  /** Prints a text above the lines. */
  above(text: string): boolean {
    const ended = text.endsWith('\n') ? text : `${text}\n`;
    return this.#write(`${this.#toTop()}${CLEAR_BELOW}${ended}${this.#frame()}`);
  }

  /** Takes the lines away, and leaves the terminal to others. */
  end(): void {
    this.#clear();
    this.#restore();
    this.stream.off('resize', this.#redraw);
    process.off('SIGTSTP', this.#suspend).off('exit', this.#clear);
  }

  #frame(): string {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours take no cell
    this.#drawn = this.#lines.map((line) => cells(line.replace(/\u001b\[\d+m/g, '')));
    return `${this.#lines.map((line) => line + CLEAR_RIGHT).join('\n')}${CLEAR_BELOW}${START}`;
  }

  /** To the first line. A terminal that became narrower has broken what was drawn into more lines. */
  #toTop(): string {
    const width = this.stream.columns || 80;
    const above = this.#drawn.slice(0, -1).map((drawn) => Math.max(1, Math.ceil(drawn / width)));
    return START + up(above.reduce((sum, each) => sum + each, 0));
  }
}
