import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { PromptmillError, UsageError } from '../core/errors.js';
import { modeLike } from './plain-file.js';
import { type Content, WriteError, writeDurably } from './writer.js';

export interface RequestedFile {
  /** The option that names it, for messages: `--html`. */
  readonly option: string;
  readonly path: string;
  /** @default false */
  readonly overwrite?: boolean;
  /** Files whose texts it contains: it gets permissions no wider than theirs. @default none */
  readonly like?: readonly string[];
}

/**
 * Refuses to replace a file of the run, anything but a plain file, and any existing file unless `overwrite`
 * is set.
 * @throws UsageError
 */
export function assertFree(
  { option, path, overwrite = false }: RequestedFile,
  kept: readonly (string | undefined)[],
): void {
  const refused = (code: string, why: string, hint = anotherFor(option)): UsageError =>
    new UsageError(code, `${option} ${path} ${why}`, hint);
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there?.isSymbolicLink()) throw refused('output_not_written', 'is a symbolic link');
  const place = realPathOf(path);
  if (kept.some((file) => file !== undefined && realPathOf(file) === place))
    throw refused('output_is_input', 'is a file of the run itself');
  if (there === undefined) return;
  if (!there.isFile()) throw refused('output_not_written', 'is there, and is no plain file');
  if (!overwrite)
    throw refused(
      'output_exists',
      'exists',
      `Replace it with --overwrite, or name another file with ${option}.`,
    );
}

/** The real path of a file that may not exist yet; a dangling link has its own path. */
export function realPathOf(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(resolve(path));
  return join(existsSync(folder) ? realpathSync(folder) : folder, basename(path));
}

/** @throws UsageError when it cannot be written, or the error that making its content threw */
export async function writeRequestedFile(
  { option, path, like = [] }: RequestedFile,
  content: Content,
): Promise<void> {
  await writeDurably(path, content, modeLike(...like)).catch((error: unknown) => {
    if (!(error instanceof WriteError)) throw error;
    if (error.cause instanceof PromptmillError) throw error.cause;
    throw new UsageError('output_not_written', error.message, anotherFor(option), { cause: error });
  });
}

const anotherFor = (option: string): string => `Name another file with ${option}.`;
