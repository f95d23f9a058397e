import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { CommanderError } from 'commander';
import { errorCode, isFileLimit, PromptmillError } from '../errors.js';
import { told } from '../render/terminal-text.js';

/** What is said of an error that ends the process, and the exit code. */
interface LastWords {
  readonly text: string;
  readonly exit: number;
}

/**
 * @param resume how to go on with what the error stops; null when nothing was sent
 */
export function lastWords(error: unknown, resume: string | null): LastWords {
  if (error instanceof CommanderError) return { text: '', exit: error.exitCode === 0 ? 0 : 2 };
  if (error instanceof PromptmillError) return { text: lines(error.message, error.hint), exit: error.exit };
  const exit = resume === null ? 2 : 3;
  const limit = limitOf(error);
  if (limit !== null) return { text: lines(...limit, resume), exit };
  // A stack only for what is a defect.
  const stack = error instanceof Error ? withSources(error.stack ?? error.message) : String(error);
  return { text: lines('this is a defect, please report it', stack, resume), exit };
}

/**
 * A stack trace with the source file behind each line that is in the bundle, which has the path of every file above what it
 * took from it.
 */
function withSources(stack: string): string {
  return stack.replace(/^ +at .*\b(file:\S+?):(\d+):\d+\)?$/gm, (frame, url, line) => {
    try {
      const above = readFileSync(new URL(url), 'utf8').split('\n').slice(0, Number(line));
      const path = above.findLast((text) => /^\/\/ (src|node_modules)\/\S+$/.test(text))?.slice('// '.length);
      return path === undefined ? frame : `${frame}, ${path}`;
    } catch {
      // The trace without it still says what happened.
      return frame;
    }
  });
}

/** A limit of the machine that was met: which one, and what to do; null for all other errors. */
function limitOf(error: unknown): [string, string] | null {
  if (!(error instanceof Error)) return null;
  const code = errorCode(error);
  if (isFileLimit(error) || isUnopened(error)) {
    return [
      `this process may open no more files (${error.message})`,
      'Raise the limit, for example with: ulimit -n 1024',
    ];
  }
  const noMemory = code === 'ENOMEM' || (error instanceof RangeError && /memory/i.test(error.message));
  if (!noMemory) return null;
  return [
    `there is not enough memory or address space (${error.message})`,
    'Raise the limit, for example with: ulimit -v unlimited',
  ];
}

/** Node looks for a package elsewhere when it may not open the `package.json` that is there, and then says it is missing. */
function isUnopened(error: Error): boolean {
  if (errorCode(error) === 'MODULE_NOT_FOUND') {
    const name = /^Cannot find module '((?:@[^/']+\/)?[^/'.][^/']*)/.exec(error.message)?.[1];
    const folders = name === undefined ? null : createRequire(import.meta.url).resolve.paths(name);
    return (folders ?? []).some((folder) => existsSync(join(folder, name ?? '', 'package.json')));
  }
  if (errorCode(error) !== 'ERR_MODULE_NOT_FOUND') return false;
  const file = /'([^']+)' imported from/.exec(error.message)?.[1];
  return file !== undefined && existsSync(join(dirname(file), 'package.json'));
}

const lines = (message: string, ...more: readonly (string | null | undefined)[]): string =>
  `promptmill: ${told([message, ...more].filter((line) => line !== undefined && line !== null).join('\n'))}\n`;

/**
 * What would be left behind if the process ended now, for an error that nobody caught. While nothing was sent that is
 * nothing, and the exit code is 2; afterwards it is 3, because work that can be continued was stopped early (fault 84).
 */
export class UnderWay {
  #resume: string | null = null;

  /** @param resume a line that says how to go on */
  begin(resume: string): void {
    this.#resume = resume;
  }

  /** The line that says how to go on; null while nothing was sent. */
  get resume(): string | null {
    return this.#resume;
  }
}
