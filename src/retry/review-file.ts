import { existsSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { sha256Of, sha256OfBytes } from '../output/own-file.js';
import { outputAt } from '../output/reader.js';
import { review } from '../output/review.js';
import type { Plan } from '../run/plan.js';

/**
 * Whether the rows for review are as the run wrote them, made out of the output as it still is: a file in which nobody has
 * filled anything in may be written anew.
 * @param path of the file
 */
export async function isUntouched(path: string, { reviewed }: Plan, { output }: Settings): Promise<boolean> {
  if (reviewed === null || !existsSync(path)) return true;
  try {
    const made = review(outputAt(output.path), reviewed, output.formulas);
    return (await sha256OfBytes(made)) === (await sha256Of(path));
  } catch (error) {
    // A record that is too long to be read back: the run had no rows for review either.
    if (error instanceof UsageError) return false;
    throw error;
  }
}
