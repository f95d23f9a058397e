import { getSystemErrorMap } from 'node:util';
import { errorCode } from '../errors.js';

/** A file that could not be written. The system's own errors do not name the file once it is open. */
export class WriteError extends Error {
  constructor(
    readonly path: string,
    cause: unknown,
  ) {
    super(`cannot write ${path}: ${reasonOf(cause)}`, { cause });
  }

  /** True when space is what is missing, on the disk or in the user's quota. */
  get full(): boolean {
    const code = errorCode(this.cause);
    return code === 'ENOSPC' || code === 'EDQUOT';
  }
}

/** What writing a file gives. @throws WriteError naming the file */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new WriteError(path, cause);
  }
}

/** The system's words for an error without the name of the call: `no space left on device (ENOSPC)`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [code, words] =
    'errno' in error && typeof error.errno === 'number' ? (getSystemErrorMap().get(error.errno) ?? []) : [];
  return words === undefined ? error.message : `${words} (${code})`;
}
