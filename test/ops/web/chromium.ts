import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** Where a Chromium is, by the variable CHROMIUM or by its name on the PATH; null where there is none. */
export function chromiumPath(): string | null {
  const named = process.env['CHROMIUM'];
  if (named) return named;
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'chrome'];
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin'];
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isExecutable) ?? null;
}

export async function startChromium(): Promise<Browser> {
  const executablePath = chromiumPath();
  if (executablePath === null)
    throw new Error('there is no chromium on the PATH; CHROMIUM names another one');
  // Root has no sandbox, and containers have little shared memory.
  const args = ['--disable-dev-shm-usage', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])];
  return chromium.launch({ executablePath, args, timeout: 60_000 });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
