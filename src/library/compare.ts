import { resolve } from 'node:path';
import type { CompareOptions, CompareReport } from '../compare/compare-outputs.js';
import { assertOptions, assertPath, CHECKS, inProgram, RENAMED_BY_COMPARE } from './options.js';

/**
 * Compares the answers of two finished outputs in one pass over both. Sends nothing.
 * @throws UsageError when they cannot be compared; then nothing is written
 */
export async function compare(a: string, b: string, options: CompareOptions = {}): Promise<CompareReport> {
  assertOptions<CompareOptions>('compare', CHECKS.compare, options);
  for (const path of [a, b]) assertPath('compare', path);
  const placed = <T extends { readonly path: string }>(file: T): T => ({ ...file, path: resolve(file.path) });
  const { changed, page } = options;
  // The program may change its folder while the rest is loaded (fault 111).
  const [pathA, pathB] = [resolve(a), resolve(b)];
  const files = { changed: changed && placed(changed), page: page && placed(page) };
  const { compareOutputs } = await import('../compare/compare-outputs.js');
  return await compareOutputs(pathA, pathB, { ...options, ...files }).catch((error) => {
    throw inProgram(error, RENAMED_BY_COMPARE);
  });
}
