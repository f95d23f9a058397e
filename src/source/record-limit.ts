import { UsageError } from '../errors.js';

/**
 * Bytes of UTF-8 that one record may have: 32 MiB. No model's context window holds a prompt of that size, and
 * without a limit one unclosed quote, or a gzip bomb (fault 13), would be read into memory whole.
 */
export const RECORD_LIMIT = 32 * 1024 * 1024;

export function recordTooLarge(name: string, line: number): UsageError {
  return new UsageError(
    'record_too_large',
    `${name}: the record that begins on line ${line} is larger than ${RECORD_LIMIT / 2 ** 20} MiB.`,
    'Look there for a quote that is never closed, or for a file that is not the format it is read as.',
  );
}
