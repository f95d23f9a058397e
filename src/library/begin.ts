import type { RunFlags, Settings } from '../config/settings.js';
import type { Halt } from '../core/halt.js';
import type { RunEvent } from '../run/events.js';
import type { RunResult } from '../run/pipeline.js';
import type { OfflineContext } from '../run/run-context.js';
import { haltOn, type JobOptions, type Opened } from './open.js';
import { inProgram } from './options.js';
import type { HostContext } from './run-opened.js';

/** Options of a run besides the job. Everything has a default. */
export interface RunOptions extends JobOptions {
  /** Store of the queue: `embedded`, `redis://…`, `rediss://…`. @default PROMPTMILL_QUEUE or `embedded` */
  readonly queue?: string | undefined;
  /** Calls an emulator that lives as long as the run, instead of the service. @default false */
  readonly emulate?: boolean | undefined;
  /** Whether this process makes calls; false leaves them to `promptmill work`. @default true */
  readonly work?: boolean | undefined;
  /** Called four times a second, and at the end. What it throws ends the run, and `run` throws it. */
  readonly onProgress?: ((progress: RunProgress) => void) | undefined;
  /** Called with every event of the run, in order. What it throws ends the run, and `run` throws it. */
  readonly onEvent?: ((event: RunEvent) => void) | undefined;
}

/** Progress of a run, in rows. */
export interface RunProgress {
  /** Rows of the run. */
  readonly total: number;
  /** Rows with a known outcome. */
  readonly known: number;
  /** Rows in the output on disk, or handed to the caller. */
  readonly written: number;
  readonly failed: number;
  /** Completed rows with an invalid answer. */
  readonly invalid: number;
  /** Calls in flight. */
  readonly inFlight: number;
  /** What the run waits for, as text; `null` when it does not wait. */
  readonly waiting: string | null;
}

/** What a run does, after its settings are known. */
export type Work<R extends RunResult> = (settings: Settings, context: OfflineContext) => Promise<R>;

export const flagsOf = ({ queue, emulate, work }: RunOptions): RunFlags => ({ queue, emulate, work });

/** @param reader takes the records when they go to the caller @throws the reason of the caller's signal */
export async function begin<R extends RunResult>(
  { source, env, log, ...opened }: Opened,
  options: RunOptions,
  halt: Halt,
  work: Work<R>,
  reader: Pick<HostContext, 'stdout' | 'maxUnwritten'> = {},
): Promise<R> {
  const { signal } = options;
  let release = (): void => {};
  try {
    release = haltOn(signal, halt);
    const leave = signal && { leave: signal };
    const onEvent = tellerOf(options, halt);
    const context = { ...reader, ...leave, halt, log, env, stdin: source.stream, onEvent };
    // Loaded late, as all that only a run needs: a program that imports the library may never start one.
    const { runOpened } = await import('./run-opened.js');
    return await runOpened(opened, context, work);
  } catch (error) {
    signal?.throwIfAborted();
    throw inProgram(error);
  } finally {
    release();
    source.stream.destroy();
  }
}

/** A callback that throws ends the run. */
function tellerOf({ onEvent, onProgress }: RunOptions, halt: Halt): (event: RunEvent) => void {
  let now: RunProgress = {
    ...{ total: 0, known: 0, written: 0, failed: 0, invalid: 0 },
    ...{ inFlight: 0, waiting: null },
  };
  return (event) => {
    now = progressed(now, event);
    try {
      onEvent?.(event);
      if (event.type === 'pulse' || event.type === 'run ended') onProgress?.(now);
    } catch (error) {
      halt.request({ kind: 'error', error });
    }
  };
}

function progressed(now: RunProgress, event: RunEvent): RunProgress {
  switch (event.type) {
    case 'run started':
      return { ...now, total: event.total, known: event.committed, written: event.committed };
    case 'committed':
      return { ...now, written: event.rows.total, failed: event.rows.failed };
    case 'pulse': {
      const { known, failed, invalid, inFlight, waiting } = event;
      return { ...now, known, failed, invalid, inFlight, waiting };
    }
    case 'run ended':
      return { ...now, known: event.known, inFlight: 0, waiting: null };
    default:
      return now;
  }
}
