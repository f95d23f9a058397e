import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { durationMs, type Job } from '../config/job-schema.js';
import { errorText, UsageError } from '../core/errors.js';
import { shellWord } from '../core/started.js';
import { postOnce } from '../service/post.js';
import { proxyFor, type ServiceProxy } from '../service/proxy.js';
import { exitOf, type RunResult } from './pipeline.js';

export interface Hooks {
  readonly command: {
    readonly argv: readonly string[];
    readonly timeoutMs: number;
    readonly cwd: string;
    /** Further variables that hold keys: never in its environment. */
    readonly secrets: readonly string[];
  } | null;
  /** The variable is for messages: the address may contain a secret. */
  readonly post: { readonly variable: string; readonly url: URL; readonly proxy: ServiceProxy | null } | null;
}

export interface HookContext {
  readonly env: NodeJS.ProcessEnv;
  readonly onWarning: (message: string) => void;
  readonly signal: AbortSignal;
  /** Shorter times for tests. */
  readonly times?: HookTimes;
}

interface HookTimes {
  /** Longest time of one POST, in milliseconds. @default 10,000 */
  readonly postMs: number;
  /** Pause before the second POST, in milliseconds. @default 2,000 */
  readonly againMs: number;
}

const TIMES: HookTimes = { postMs: 10_000, againMs: 2_000 };
/** Never in the environment of a command. */
const KEYS = [
  'PROMPTMILL_API_KEY',
  'PROMPTMILL_API_KEY_2',
  'PROMPTMILL_DASHBOARD_PASSWORD',
  // Its address may contain a password.
  'PROMPTMILL_QUEUE',
];

type HookedJob = Pick<Job, 'onFinish' | 'endpoints'> & { readonly file?: string };

const USUAL_PATH = '/usr/bin:/bin';

/** @throws UsageError when the program of `on_finish.command` does not exist */
export function assertProgram(
  { onFinish, file }: HookedJob,
  variable: (name: string) => string | undefined,
): void {
  const [program] = onFinish?.command ?? [];
  if (program === undefined) return;
  const isPath = program.includes('/');
  const folders = isPath ? [''] : (variable('PATH') ?? USUAL_PATH).split(':');
  const found = folders
    .map((folder) => (isPath ? resolve(program) : join(folder || '.', program)))
    .filter(isFile);
  if (found.some(isExecutable)) return;
  const [there] = found;
  throw new UsageError(
    'hook_program_missing',
    `${file === undefined ? '' : `${file}: `}on_finish.command: ` +
      (there !== undefined
        ? `${there} may not be executed`
        : `there is no program ${isPath ? resolve(program) : `${program} in the PATH`}`),
    there !== undefined
      ? `Make it executable: chmod +x ${shellWord(there)}`
      : 'Give its path from the folder in which the command is started, or an absolute one; or take on_finish.command out.',
  );
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** @throws UsageError when the program does not exist, or the address variable is missing or invalid */
export function readyHooks(job: HookedJob, variable: (name: string) => string | undefined): Hooks {
  assertProgram(job, variable);
  const { command, post, timeout } = job.onFinish ?? {};
  const url = post === undefined ? null : addressIn(post, variable(post));
  return {
    command:
      command && timeout
        ? {
            ...{ argv: command, timeoutMs: durationMs(timeout), cwd: process.cwd() },
            secrets: job.endpoints.flatMap(({ key }) => key ?? []),
          }
        : null,
    post: post && url ? { variable: post, url, proxy: proxyFor(url.href, variable) } : null,
  };
}

function addressIn(name: string, value: string | undefined): URL {
  const url = URL.parse(value ?? '');
  if (url !== null && ['http:', 'https:'].includes(url.protocol)) return url;
  throw new UsageError(
    'bad_hook_address',
    value === undefined
      ? `on_finish.post: the environment variable ${name} is not set`
      : `on_finish.post: the environment variable ${name} is not an http or https address`,
    'Put the address there, or take on_finish.post out of the job file.',
  );
}

/**
 * Runs the command and the POST in parallel. A run interrupted by a signal has not ended: the next process
 * completes it. A failed hook is only a warning: the rows are safe.
 */
export async function onFinish(hooks: Hooks, result: RunResult, context: HookContext): Promise<void> {
  if (result.halted?.kind === 'signal') return;
  // The prompt and the settings must not leave the folder.
  const { details: _, ...figures } = result.summary;
  const body = `${JSON.stringify(figures)}\n`;
  const warned = (name: string, work: Promise<void>): Promise<void> =>
    work.catch((error) => context.onWarning(`${name}: ${errorText(error)}`));
  await Promise.all([
    hooks.command && warned('on_finish.command', runCommand(hooks.command, result, body, context)),
    hooks.post && warned('on_finish.post', post(hooks.post, body, context)),
  ]);
}

async function runCommand(
  { argv: [program = '', ...args], timeoutMs, cwd, secrets }: NonNullable<Hooks['command']>,
  { summary, halted, files }: RunResult,
  body: string,
  { env, signal }: HookContext,
): Promise<void> {
  const child = spawn(program, args, {
    cwd,
    env: {
      ...Object.fromEntries(Object.entries(env).filter(([name]) => ![...KEYS, ...secrets].includes(name))),
      PROMPTMILL_STATUS: halted === null ? 'finished' : 'stopped',
      PROMPTMILL_EXIT_CODE: String(exitOf({ summary, halted })),
      PROMPTMILL_JOB: summary.job,
      PROMPTMILL_RUN: summary.run,
      PROMPTMILL_OUTPUT: files === null ? '-' : resolve(files.output),
      // The good output that the rejected run did not replace.
      ...(summary.rejected && {
        PROMPTMILL_GOOD_OUTPUT: summary.rejected.good_output ? resolve(summary.rejected.good_output) : '',
      }),
      // A run that stopped early has no summary on disk yet; standard input always has it.
      PROMPTMILL_SUMMARY: files === null || halted !== null ? '' : resolve(files.summary),
    },
    // Standard output carries only data.
    stdio: ['pipe', process.stderr, process.stderr],
    // A process group, so that the command's children end with it.
    detached: true,
  });
  // A command may ignore its input.
  child.stdin.on('error', () => {});
  child.stdin.end(body);
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      child.kill('SIGKILL');
    }
  };
  return new Promise<void>((done, failed) => {
    let why: string | null = null;
    const stop = (reason: string): void => {
      why ??= reason;
      end();
    };
    const timer = setTimeout(stop, timeoutMs, `ended after ${timeoutMs / 1000} s without an end of its own`);
    const onAbort = (): void => stop('ended, because promptmill has to leave');
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort);
    const settled = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    };
    child.on('error', (error) => {
      settled();
      failed(error);
    });
    child.on('exit', (code, killedBy) => {
      settled();
      if (why !== null) failed(new Error(why));
      else if (code === 0) done();
      else failed(new Error(code === null ? `ended by ${killedBy}` : `exit code ${code}`));
    });
  });
}

/** The second POST is for a failed first one. Redirects are not followed: they would send it elsewhere. */
async function post(
  { variable, url, proxy }: NonNullable<Hooks['post']>,
  body: string,
  { signal, times = TIMES }: HookContext,
): Promise<void> {
  const way = proxy === null ? '' : ` through the proxy ${proxy.address}`;
  for (let attempt = 1; ; attempt++) {
    const patience = AbortSignal.any([signal, AbortSignal.timeout(times.postMs)]);
    const problem = await postOnce(url, body, proxy, patience);
    if (problem === null) return;
    if (attempt === 2 || signal.aborted) throw new Error(`the address in ${variable} ${problem}${way}`);
    await sleep(times.againMs, undefined, { signal }).catch(() => {});
  }
}
