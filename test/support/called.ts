import fs from 'node:fs';
import { exitMessage, UnderWay } from '../../src/commands/exit-message.js';
import { runCommandLine } from '../../src/commands/program.js';
import type { Ended } from './promptmill.js';

/** What a command is called with. */
interface Call {
  readonly args: readonly string[];
  /** The folder in which it runs. */
  readonly folder: string;
  /** All of its environment. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** Told each piece of standard error at once. */
  readonly onStderr?: (piece: string) => void;
}

class Exited extends Error {
  constructor(readonly code: number) {
    super(`exit ${code}`);
  }
}

let isBusy = false;

/**
 * Runs a command in the process of the tests, as `cli.ts` does in one of its own, which costs a second or two more.
 * Folder, environment, arguments and output streams belong to a process, so there is one call at a time. The output of
 * hooks, which are processes, goes to the terminal of the tests.
 */
export async function callCommand({ args, folder, env, onStderr }: Call): Promise<Ended> {
  if (isBusy) throw new Error('commands that run beside each other need a process each: use start()');
  isBusy = true;
  const before = { cwd: process.cwd(), env: process.env, argv: process.argv };
  const stdout = captured(process.stdout);
  const stderr = captured(process.stderr, onStderr);
  // The log writes to the file descriptor, through the module's object.
  const { writeSync } = fs;
  fs.writeSync = (...args: unknown[]): number => {
    const [fd, text] = args;
    if (fd !== 2 || typeof text !== 'string') return Reflect.apply(writeSync, fs, args);
    process.stderr.write(text);
    return Buffer.byteLength(text);
  };
  process.chdir(folder);
  process.env = { ...env };
  process.argv = [...before.argv.slice(0, 2), ...args];
  const end = (code: number): Ended => ({ code, stdout: stdout.text(), stderr: stderr.text() });
  const underWay = new UnderWay();
  try {
    const exit = (code: number): never => {
      throw new Exited(code);
    };
    await runCommandLine(args, exit, underWay);
    return end(0);
  } catch (error) {
    if (error instanceof Exited) return end(error.code);
    const { text, exit } = exitMessage(error, underWay.resume);
    process.stderr.write(text);
    return end(exit);
  } finally {
    fs.writeSync = writeSync;
    for (const stream of [stdout, stderr]) stream.release();
    process.argv = before.argv;
    process.env = before.env;
    process.chdir(before.cwd);
    isBusy = false;
  }
}

/** Takes what is written to a stream until it is released. */
function captured(
  stream: NodeJS.WriteStream,
  onPiece: (piece: string) => void = () => {},
): { text(): string; release(): void } {
  const { write } = stream;
  const pieces: string[] = [];
  const take = (piece: string | Uint8Array, ...more: unknown[]): boolean => {
    const text = typeof piece === 'string' ? piece : Buffer.from(piece).toString('utf8');
    pieces.push(text);
    onPiece(text);
    const done = more.at(-1);
    if (typeof done === 'function') process.nextTick(done);
    return true;
  };
  stream.write = take;
  return {
    text: () => pieces.join(''),
    release: () => {
      stream.write = write;
    },
  };
}
