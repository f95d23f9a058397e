import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { outputBytes } from '../output/output-bytes.js';
import { sha256Of } from '../output/own-file.js';
import { review } from '../output/review.js';
import type { Plan } from '../run/plan.js';

/**
 * Whether the rows for review are as the run wrote them, made out of the output as it still is: a file in which nobody has
 * filled anything in may be written anew.
 * @param path of the file
 */
export async function isUntouched(path: string, { reviewed }: Plan, { output }: Settings): Promise<boolean> {
  if (reviewed === null || !existsSync(path)) return true;
  const hash = createHash('sha256');
  try {
    const records = output.format.readBack(outputBytes(output.path), output.path);
    for await (const text of review(records, reviewed, output.formulas)) hash.update(text);
  } catch (error) {
    // A record that is too long to be read back: the run had no rows for review either.
    if (error instanceof UsageError) return false;
    throw error;
  }
  return hash.digest('hex') === (await sha256Of(path));
}
