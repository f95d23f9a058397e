import { PassThrough, Readable } from 'node:stream';
import { type Logger, pino } from 'pino';
import type { Settings } from '../config/settings.js';
import type { RunResult } from '../run/pipeline.js';
import type { OfflineContext, RunContext } from '../run/run-context.js';
import { Connection } from './connection.js';
import type { OpenedJob } from './opened-job.js';

export interface HostContext extends Pick<RunContext, 'halt' | 'onBegun' | 'onEvent' | 'maxUnwritten'> {
  /** Takes messages for the user. @default they are dropped */
  readonly log?: Logger | undefined;
  /** Inherited by the command of `on_finish`, without the keys. */
  readonly env: NodeJS.ProcessEnv;
  /** Rows, if the job reads standard input. @default none */
  readonly stdin?: NodeJS.ReadableStream;
  /** Records, if the job writes to standard output. @default nowhere */
  readonly stdout?: NodeJS.WritableStream;
  /** Ends the hooks of `on_finish`. @default nothing does */
  readonly leave?: AbortSignal;
}

/**
 * Runs rows of a job and its `on_finish` hooks. Prints nothing, and listens to no signal.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runOpened<R extends RunResult>(
  { environment, job, settings }: OpenedJob,
  { env, leave, stdin, stdout, log = pino({ level: 'silent' }), ...context }: HostContext,
  work: (settings: Settings, context: OfflineContext) => Promise<R>,
): Promise<R> {
  const say = (line: string): void => {
    const warning = /^warning: (.*)/s.exec(line)?.[1];
    if (warning === undefined) log.info(line);
    else log.warn(warning);
  };
  const connection = new Connection({ environment, job, settings }, say);
  try {
    const offline = connection.offline({
      ...context,
      log,
      stdin: stdin ?? Readable.from([]),
      stdout: stdout ?? new PassThrough().resume(),
      stderr: new PassThrough().resume(),
      quiet: true,
      say,
    });
    const result = await work(settings, offline);
    const onWarning = (message: string): void => log.warn(message);
    // A retry without matching rows has changed nothing.
    if (result.retried !== 0)
      await connection.finish(result, { env, onWarning, signal: leave ?? new AbortController().signal });
    return result;
  } finally {
    await connection.close();
  }
}
