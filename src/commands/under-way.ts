/**
 * What would be left behind if the process ended now, for an error that nobody caught. While nothing was sent that is
 * nothing, and the exit code is 2; afterwards it is 3, because work that can be continued was stopped early (fault 84).
 */
export class UnderWay {
  #resume: string | null = null;

  /** @param resume a line that says how to go on */
  begin(resume: string): void {
    this.#resume = resume;
  }

  /** The line that says how to go on; null while nothing was sent. */
  get resume(): string | null {
    return this.#resume;
  }
}
