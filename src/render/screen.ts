import { cells } from './terminal-text.js';

export interface TerminalStream extends NodeJS.WritableStream {
  readonly columns?: number;
  readonly rows?: number;
}

export const canDraw = (stream: { readonly isTTY?: boolean }): boolean =>
  stream.isTTY === true && process.env['TERM'] !== 'dumb';

const START = '\r';
const CLEAR_RIGHT = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
const up = (lines: number): string => (lines > 0 ? `\u001b[${lines}A` : '');

/**
 * Lines at the bottom of a terminal, redrawn in place, each time in one write so that nothing flickers. Other
 * output, such as the log, goes above them. The cursor rests at the start of the last line and stays visible,
 * so a killed process leaves a usable terminal.
 */
export class Screen {
  /** Cells of each drawn line; empty while nothing is drawn. */
  #drawn: readonly number[] = [];
  #lines: readonly string[] = [];
  readonly #write: (text: string) => boolean;
  readonly #restore: () => void;
  readonly #redraw = (): void => this.update();
  /** Ctrl-Z: the shell writes where the lines were; after `fg` they are drawn below that. */
  readonly #suspend = (): void => {
    this.#clear();
    process.kill(process.pid, 'SIGSTOP');
  };

  /** Also on exit in the middle of a run. */
  readonly #clear = (): void => {
    this.#write(this.#toTop() + CLEAR_BELOW);
    this.#drawn = [];
  };

  /** @param lines to show in that many cells; none may be wider */
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

  update(): void {
    const top = this.#toTop();
    // One cell stays free: some terminals wrap a line that fills them.
    const lines = this.lines((this.stream.columns || 80) - 1);
    // Lines beyond the upper edge could not be redrawn.
    this.#lines = lines.slice(0, Math.max(1, (this.stream.rows || lines.length + 1) - 1));
    this.#write(top + this.#frame());
  }

  above(text: string): boolean {
    const ended = text.endsWith('\n') ? text : `${text}\n`;
    return this.#write(`${this.#toTop()}${CLEAR_BELOW}${ended}${this.#frame()}`);
  }

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

  /** A terminal that became narrower has wrapped the drawn lines. */
  #toTop(): string {
    const width = this.stream.columns || 80;
    const above = this.#drawn.slice(0, -1).map((drawn) => Math.max(1, Math.ceil(drawn / width)));
    return START + up(above.reduce((sum, each) => sum + each, 0));
  }
}
