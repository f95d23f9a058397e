import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inject } from 'vitest';
import { built } from './children.js';

/**
 * An embedded store that was made and never used. To make one takes 3 s of processor time, to copy it a tenth of a
 * second; how it is made is the matter of `test/queue/store-embedded.test.ts`. The first file that needs it makes it
 * for all, before its tests begin; when two make it at once, one of them is kept.
 */
const made = join(inject('folderOfAll'), 'state');
if (!existsSync(made)) {
  const making = mkdtempSync(`${made}-`);
  const script = `
    const { openStore } = await import(${JSON.stringify(built('store/open.js'))});
    const options = { stateDir: ${JSON.stringify(making)}, onWarning: () => {} };
    await (await openStore('embedded', options)).close();
  `;
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  try {
    renameSync(making, made);
  } catch {
    rmSync(making, { recursive: true, force: true });
  }
}

/** Puts the store into a state directory, unless there is one already. */
export function putMadeStore(stateDir: string): void {
  if (existsSync(join(stateDir, 'store'))) return;
  mkdirSync(stateDir, { recursive: true });
  // Ten times as fast as `cpSync`: there are a thousand files.
  execFileSync('cp', ['-R', `${made}/.`, stateDir]);
}
