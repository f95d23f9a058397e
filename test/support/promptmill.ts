import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { parse } from 'csv-parse/sync';
import { stringify } from 'yaml';
import { callCommand } from './called.js';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

/** What a command left behind. */
export interface Ended {
  /** Exit code; null when a signal ended the process. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs, in a process of its own. */
export interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
}

/** A folder to work in, as a user has one; every path is relative to it. */
export class Workplace {
  #folder: string | null = null;

  /** Made when it is first asked for: tests that are not run leave none. */
  get folder(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'promptmill-work-'));
    return this.#folder;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, content: string | Buffer): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), content);
    return name;
  }

  /** The text of a file, inflated where its name ends in `.gz`. */
  read(name: string): string {
    const bytes = readFileSync(this.path(name));
    return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
  }

  /** A job file over an input, with what a test needs and no more: it has no report. */
  job(job: object, name = 'job.yaml'): string {
    return this.write(
      name,
      stringify({
        service: { deployment: 'lm-35-turbo-instruct' },
        prompt: 'row {{ id }}',
        report: false,
        ...job,
      }),
    );
  }

  /** A CSV of so many rows with the columns `id` and `note`. */
  rows(count: number, name = 'rows.csv'): string {
    const lines = Array.from({ length: count }, (_, i) => `${i + 1},"note ${i + 1}, with a ""quote"""`);
    return this.write(name, `id,note\n${lines.join('\n')}\n`);
  }

  records(name: string): Record<string, string>[] {
    return parse(this.read(name), { columns: true, relax_column_count: false });
  }

  /** What the lines of a JSONL file say. */
  // biome-ignore lint/suspicious/noExplicitAny: as of JSON.parse
  lines(name: string): any[] {
    return this.read(name)
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  }

  json(name: string): Record<string, unknown> {
    return JSON.parse(this.read(name));
  }

  /**
   * Starts `promptmill` here. Nothing of the environment of the tests reaches it but the PATH.
   */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}, stdin = ''): Running {
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd: this.folder,
      env: environment(env),
      stdio: 'pipe',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.stdin.on('error', () => {});
    child.stdin.end(stdin);
    const ended = new Promise<Ended>((resolve) => {
      child.on('close', (code) => resolve({ code, stdout, stderr }));
    });
    return { process: child, ended };
  }

  /** Runs `promptmill` here in a process of its own, to its end. */
  run(args: readonly string[], env: Readonly<Record<string, string>> = {}, stdin = ''): Promise<Ended> {
    return this.start(args, env, stdin).ended;
  }

  /** Runs `promptmill` here to its end without a process of its own, which is cheaper; see `callCommand` for what differs. */
  call(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    onStderr?: (piece: string) => void,
  ): Promise<Ended> {
    return callCommand({ args, folder: this.folder, env: environment(env), ...(onStderr && { onStderr }) });
  }

  remove(): void {
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }
}

const environment = (env: Readonly<Record<string, string>>): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  PROMPTMILL_API_KEY: 'a-key-for-tests-only',
  ...env,
});
