import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const PINNED = join(import.meta.dirname, 'package.json');
const INSTALLED = join(import.meta.dirname, 'node_modules');
/** The pins of the last install. */
const RECEIPT = join(INSTALLED, '.installed.json');
/**
 * promptfoo's optional packages take a gigabyte and more, so they are left out, and with them the one it cannot do
 * without: the binary of its database.
 */
const BARE = ['--no-package-lock', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund'];

/**
 * Installs the tools of `bench/package.json`, unless they are there.
 * @returns why they cannot be installed; null when they are there
 */
export async function installForeign(): Promise<string | null> {
  const pins = readFileSync(PINNED, 'utf8');
  if (existsSync(RECEIPT) && readFileSync(RECEIPT, 'utf8') === pins) return null;
  console.log(
    'Installing OpenAI SDK, LangChain.js and promptfoo into bench/node_modules (330 MB, a minute or two) ...',
  );
  const npm = (...args: readonly string[]) =>
    promisify(execFile)('npm', ['install', ...BARE, ...args], { cwd: import.meta.dirname });
  try {
    await npm();
    if (process.platform === 'linux') {
      const { version } = JSON.parse(readFileSync(join(INSTALLED, 'libsql/package.json'), 'utf8'));
      await npm('--no-save', `@libsql/linux-${process.arch}-gnu@${version}`);
    }
    writeFileSync(RECEIPT, pins);
    return null;
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    const line = said.split('\n').find((each) => each.includes('npm error')) ?? said;
    return `it could not be installed (${line}). Run this again where the npm registry can be reached`;
  }
}
