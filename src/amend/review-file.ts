import { existsSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { sha256Of, sha256OfBytes } from '../output/plain-file.js';
import { outputAt } from '../output/reader.js';
import { review } from '../output/review.js';
import type { Plan } from '../run/plan.js';

/** Whether the review is exactly as the run wrote it: an unedited file may be rewritten. */
export async function isUntouched(path: string, { reviewed }: Plan, { output }: Settings): Promise<boolean> {
  if (reviewed === null || !existsSync(path)) return true;
  try {
    const made = review(outputAt(output.path), reviewed, output.formulas);
    return (await sha256OfBytes(made)) === (await sha256Of(path));
  } catch (error) {
    // A record is too long to be read back: the run had no review either.
    if (error instanceof UsageError) return false;
    throw error;
  }
}
