import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  export interface ProvidedContext {
    /** A folder that all test files share. */
    folderOfAll: string;
  }
}

/** Makes the folder before all tests, and removes it after them. */
export default function setup({ provide }: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-all-'));
  provide('folderOfAll', folder);
  return () => rmSync(folder, { recursive: true, force: true });
}
