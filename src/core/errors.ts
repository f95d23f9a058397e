/**
 * Errors that end a command, with stable codes. The message has one or two lines: the file, line or option,
 * the value received, and what to do.
 */

/** Base of all deliberate errors; any other error is a defect and shows its stack. */
export abstract class PromptmillError extends Error {
  /** Process exit code. 2: did not start. 3: stopped early. 130 and 143: ended by a signal. */
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

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The code from Node.js, the system or a library, such as `ENOENT`; empty without one. */
export const errorCode = (error: unknown): string =>
  error instanceof Error && 'code' in error && error.code !== undefined ? String(error.code) : '';

export const isDiskFull = (error: unknown): boolean => /^(ENOSPC|EDQUOT)$/.test(errorCode(error));

/** The limit of the process or of the machine. */
export const isFileLimit = (error: unknown): boolean => /^E[MN]FILE$/.test(errorCode(error));

export const FILE_LIMIT_REMEDY = 'Raise the limit (ulimit -n 1024) or lower --concurrency.';

/** `csv, tsv or jsonl` */
export const either = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
