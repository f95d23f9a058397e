/**
 * Errors that end a command, with stable codes. Each carries the exit code of the contract and a message of
 * one or two lines that names the file, line or option, the value received, and what to do.
 */

/** Base of every error that Promptmill raises on purpose; anything else is a defect and shows its stack. */
export abstract class PromptmillError extends Error {
  /** Process exit code. @see contract: exit codes */
  abstract readonly exit: 2 | 3 | 130 | 143;

  /**
   * @param code stable, machine-readable, in snake_case
   * @param message what is wrong and with which value
   * @param hint what to do next, one sentence
   */
  constructor(
    readonly code: string,
    message: string,
    readonly hint?: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Did not start: bad usage, job, input or environment. Nothing was sent. */
export class UsageError extends PromptmillError {
  readonly exit = 2;
}

/** Stopped early; the same command resumes. */
export class StopError extends PromptmillError {
  readonly exit = 3;
}
