import { goldReader } from '../answer/gold.js';
import { DoneFiles } from '../batch/done-files.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import type { Row } from '../core/model.js';
import { checkColumns } from '../prompt/row-request.js';
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
import { picked, RowSample } from './sample.js';

type OnProgress = (bytesRead: number, totalBytes: number) => void;

/** An input that was read once in full without errors. */
export interface Input {
  readonly spec: InputSpec;
  readonly survey: Survey;
  /** Rows to run: all, the first ones (`--limit`), or a sample. */
  readonly total: number;
  /** Null when all rows are to run, or the first ones. */
  readonly sample: Settings['input']['sample'];
  /** Answers that are known; null for a job without, and for rows that are called again. */
  readonly done: DoneFiles | null;
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
  const { path, limit, sample: wanted, done: known, require: _, ...reading } = settings.input;
  await sweepSpools(settings.stateDir);
  if (path === '-') assertPiped(context, { path, ...reading });
  const spool =
    path === '-' ? await spoolStandardInput(context.stdin, settings.stateDir, context.halt.signal) : null;
  let done: DoneFiles | null = null;
  const discard = (): void => {
    spool?.discard();
    done?.close();
  };
  const spec: InputSpec = { ...reading, path: spool?.path ?? path };
  try {
    if (known.length > 0 && settings.retry === null)
      done = await DoneFiles.open(known, settings, context.halt.signal);
    const gold = goldReader(settings, reading.name);
    const sample = wanted && new RowSample(wanted, reading.name);
    const surveyed = await survey(spec, {
      signal: context.halt.signal,
      onProgress,
      onRow: (row) => {
        gold?.(row);
        sample?.offer(row);
        done?.offer(row);
      },
    });
    const input = { spec, survey: surveyed, done, discard };
    if (wanted !== null && wanted.by !== null)
      checkColumns('--by', [wanted.by], { ...surveyed, name: reading.name });
    if (sample !== null && wanted !== null && wanted.rows < surveyed.rows) {
      const numbers = sample.numbers();
      done?.choose(numbers);
      return {
        ...input,
        total: numbers.length,
        sample: wanted,
        rows: (options) => picked(rows(spec, surveyed, options), numbers),
      };
    }
    const total = limit === null ? surveyed.rows : Math.min(limit, surveyed.rows);
    done?.choose(total);
    return { ...input, total, sample: null, rows: (options) => rows(spec, surveyed, options) };
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
