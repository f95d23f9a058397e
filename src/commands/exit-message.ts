import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { CommanderError } from 'commander';
import { errorCode, isFileLimit, PromptmillError } from '../core/errors.js';
import { terminalText } from '../render/terminal-text.js';

/** The message for an error that ends the process, and the exit code. */
interface ExitMessage {
  readonly text: string;
  readonly exit: number;
}

/** @param resume how to continue what the error stopped; null when nothing was sent */
export function exitMessage(error: unknown, resume: string | null): ExitMessage {
  if (error instanceof CommanderError) return { text: '', exit: error.exitCode === 0 ? 0 : 2 };
  if (error instanceof PromptmillError) return { text: lines(error.message, error.hint), exit: error.exit };
  const exit = resume === null ? 2 : 3;
  const limit = limitOf(error);
  if (limit !== null) return { text: lines(...limit, resume), exit };
  // Only a defect gets a stack.
  const stack = error instanceof Error ? withSources(error.stack ?? error.message) : String(error);
  return { text: lines('this is a defect, please report it', stack, resume), exit };
}

/** Adds the source file to each frame in the bundle; the bundle has the path of each file above its code. */
function withSources(stack: string): string {
  return stack.replace(/^ +at .*\b(file:\S+?):(\d+):\d+\)?$/gm, (frame, url, line) => {
    try {
      const above = readFileSync(new URL(url), 'utf8').split('\n').slice(0, Number(line));
      const path = above.findLast((text) => /^\/\/ (src|node_modules)\/\S+$/.test(text))?.slice('// '.length);
      return path === undefined ? frame : `${frame}, ${path}`;
    } catch {
      // The trace is useful without it.
      return frame;
    }
  });
}

/** The limit of the machine that was hit, and what to do; null for all other errors. */
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

/** When Node may not open a `package.json`, it looks elsewhere and then reports the package as missing. */
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
  `promptmill: ${terminalText([message, ...more].filter((line) => line !== undefined && line !== null).join('\n'))}\n`;

/**
 * What an uncaught error would leave behind now. While nothing was sent, the exit code is 2; afterwards it is
 * 3, because work that can be continued was stopped early (fault 84).
 */
export class UnderWay {
  #resume: string | null = null;

  /** @param resume a line that says how to continue */
  begin(resume: string): void {
    this.#resume = resume;
  }

  /** Null while nothing was sent. */
  get resume(): string | null {
    return this.#resume;
  }
}
