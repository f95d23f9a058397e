import { goldReader } from '../answer/gold.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import type { Row } from '../core/model.js';
import {
  formatOf,
  type InputSpec,
  type RowsOptions,
  rows,
  type Survey,
  spoolStandardInput,
  survey,
  sweepSpools,
} from '../source/source.js';
import type { RunContext } from './run-context.js';

type OnProgress = (bytesRead: number, totalBytes: number) => void;

/** An input that was read once in full without errors. */
export interface Input {
  readonly spec: InputSpec;
  readonly survey: Survey;
  /** Rows to run: all, or the first ones with `--limit`. */
  readonly total: number;
  /** Row numbers count up from 1; rows beyond `total` may follow. */
  readonly rows: (options: RowsOptions) => AsyncIterable<Row>;
  discard(): void;
}

/**
 * One full read, gold included, before anything is sent, so that a broken file costs nothing.
 * @param onProgress called every 100 ms
 */
export async function openInput(
  settings: Settings,
  context: Pick<RunContext, 'stdin' | 'halt'>,
  onProgress: OnProgress = () => {},
): Promise<Input> {
  const { path, limit, require: _, ...reading } = settings.input;
  await sweepSpools(settings.stateDir);
  if (path === '-') assertPiped(context, { path, ...reading });
  const spool =
    path === '-' ? await spoolStandardInput(context.stdin, settings.stateDir, context.halt.signal) : null;
  const discard = (): void => spool?.discard();
  const spec: InputSpec = { ...reading, path: spool?.path ?? path };
  try {
    const gold = goldReader(settings, reading.name);
    const surveyed = await survey(spec, {
      signal: context.halt.signal,
      onProgress,
      ...(gold && { onRow: gold }),
    });
    const total = limit === null ? surveyed.rows : Math.min(limit, surveyed.rows);
    return { spec, survey: surveyed, total, rows: (options) => rows(spec, surveyed, options), discard };
  } catch (error) {
    discard();
    throw error;
  }
}

/** Checked before waiting for input that never comes, and before copying a pipe in an unreadable format. */
function assertPiped({ stdin }: Pick<RunContext, 'stdin'>, spec: InputSpec): void {
  if (stdin.isTTY === true) {
    throw new UsageError(
      'stdin_is_terminal',
      'standard input is a terminal, and no rows come from it.',
      'Pipe them in, for example zcat rows.csv.gz | promptmill run JOB --input - --format csv, or name a file with --input.',
    );
  }
  formatOf(spec);
}
