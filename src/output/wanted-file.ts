import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { PromptmillError, UsageError } from '../errors.js';
import { modeLike } from './own-file.js';
import { type Content, WriteError, writeDurably } from './writer.js';

/** A file that somebody asks for, besides the files of a run. */
export interface WantedFile {
  /** The option that names it, for messages: `--html`. */
  readonly option: string;
  readonly path: string;
  /** Replaces a file that is there. @default false */
  readonly overwrite?: boolean;
  /** Files whose texts are in it: it is as private as they are. @default none */
  readonly like?: readonly string[];
}

/**
 * A file that is wanted takes the place of nothing that a run has read or written, of no file that somebody else has made unless it
 * is told to, and of nothing but a file.
 * @param kept the files of the run, whether they are there or not
 * @throws UsageError when it cannot be put there
 */
export function assertFree(
  { option, path, overwrite = false }: WantedFile,
  kept: readonly (string | undefined)[],
): void {
  const refused = (code: string, why: string, hint = anotherFor(option)): UsageError =>
    new UsageError(code, `${option} ${path} ${why}`, hint);
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there?.isSymbolicLink()) throw refused('output_not_written', 'is a symbolic link');
  const place = placeOf(path);
  if (kept.some((file) => file !== undefined && placeOf(file) === place))
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

/** The file that a name stands for, whether it is there or not; also where a link that leads nowhere has the name. */
export function placeOf(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(resolve(path));
  return join(existsSync(folder) ? realpathSync(folder) : folder, basename(path));
}

/** Writes it as a whole. @throws UsageError when it cannot be written, or what fails while its content is made */
export async function writeWanted({ option, path, like = [] }: WantedFile, content: Content): Promise<void> {
  await writeDurably(path, content, modeLike(...like)).catch((error: unknown) => {
    if (!(error instanceof WriteError)) throw error;
    if (error.cause instanceof PromptmillError) throw error.cause;
    throw new UsageError('output_not_written', error.message, anotherFor(option), { cause: error });
  });
}

const anotherFor = (option: string): string => `Name another file with ${option}.`;
