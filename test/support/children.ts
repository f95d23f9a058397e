import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A process that runs a piece of a test, line by line in step with it. */
export interface Child {
  readonly pid: number;
  /** The next line that it prints. */
  line(): Promise<string>;
  /** Sends it a line. */
  tell(line: string): void;
  /** Ends it, and resolves when it has ended. */
  kill(signal?: NodeJS.Signals): Promise<void>;
}

/** The build's form of a source file, as an address to import. Processes of their own cannot run TypeScript. */
export function built(module: string): string {
  const url = new URL(`../../dist/${module}`, import.meta.url);
  if (!existsSync(url)) throw new Error(`${fileURLToPath(url)} is missing: run "npm run build" first`);
  return url.href;
}

/**
 * Starts a process that runs a script, an ES module. In it `lines` has what it is told: `await lines.next()`.
 * A child dies with the test that started it, because its standard input ends.
 */
export function startChild(script: string): Child {
  const head = `
    import { createInterface } from 'node:readline';
    const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    process.stdin.on('end', () => process.exit());
  `;
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [
    '--input-type=module',
    '-e',
    head + script,
  ]);
  child.stderr.pipe(process.stderr);
  const output = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: child.pid ?? 0,
    line: async () => {
      const { value, done } = await output.next();
      if (done === true) throw new Error('the child ended without another line');
      return value;
    },
    tell: (line) => child.stdin.write(`${line}\n`),
    kill: async (signal = 'SIGKILL') => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
}
