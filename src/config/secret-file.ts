import { readFileSync } from 'node:fs';
import { errorText, UsageError } from '../errors.js';

/**
 * A secret that is either in a variable, or in the file that the variable NAME_FILE names. White space around it, such as
 * the line break that an editor leaves, is no part of it; an empty file counts as not set, like an empty variable.
 * @param value looks a variable up
 * @throws UsageError when both are set, or the file cannot be read; never with the secret in it
 */
export function secretFile(name: string, value: (name: string) => string | undefined): string | undefined {
  const given = value(name);
  const path = value(`${name}_FILE`);
  if (path === undefined) return given;
  if (given !== undefined) {
    throw new UsageError(
      'secret_given_twice',
      `${name} and ${name}_FILE are both set`,
      'Leave one of them away: the file is for containers, and keeps the secret out of the environment.',
    );
  }
  try {
    return readFileSync(path, 'utf8').trim() || undefined;
  } catch (error) {
    throw new UsageError(
      'secret_unreadable',
      `cannot read the file of ${name}_FILE: ${errorText(error)}`,
      `Make ${path} readable for the user of this process, or unset ${name}_FILE.`,
      { cause: error },
    );
  }
}
