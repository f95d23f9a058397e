import { existsSync } from 'node:fs';
import type { FinishedSummary } from '../account/read-summary.js';
import type { StoredSummary } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { prepareStateDir } from '../folder.js';
import { LockedError, thisProcess } from '../lock.js';
import { outputBytes, packingOf } from '../output/output-bytes.js';
import { type FileId, fileAt, isSame, isTaken, modeOf } from '../output/own-file.js';
import { sealOfFile, writeDurably } from '../output/writer.js';
import { changes, fingerprint, partValues } from '../resume/fingerprint.js';
import { openFinished } from '../resume/finished-output.js';
import { type Manifest, removeManifest } from '../resume/manifest.js';
import { hasPlaceholder, outputFiles } from '../resume/output-files.js';
import { OutputLock } from '../resume/output-lock.js';
import { newRun } from '../resume/output-target.js';
import { openInput } from '../run/input.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import { planRows } from '../run/plan.js';
import type { Unconnected } from '../run/world.js';
import { assertExtended } from './input-of-output.js';
import { assertSameLayout } from './layout.js';
import { isUntouched } from './review-file.js';

/**
 * Calls the rows appended to the input of a finished output, as a run that has finished with its first rows.
 * Without a finished output it runs the job.
 * @throws UsageError when the input was changed, or the output cannot be continued; then nothing was sent
 */
export async function extendOutput(settings: Settings, world: Unconnected): Promise<RunResult> {
  assertExtendable(settings);
  const files = outputFiles(settings.output.path);
  if (!existsSync(files.output) || isTaken(files.manifest)) return await runJob(settings, world);
  const lock = new OutputLock(world);
  let begun: FileId | null = null;
  try {
    await lock.take(files.output);
    // Another process began this and was killed.
    if (isTaken(files.manifest)) {
      lock.release();
      return await runJob(settings, world);
    }
    const { summary: before } = await openFinished(files.output, 'refuse');
    prepareStateDir(settings.stateDir);
    const manifest = await grown(settings, before, world);
    if (manifest === null) {
      world.say(
        `no row was appended to ${settings.input.path} since ${files.output} was made: nothing was changed`,
      );
      const { total } = before.rows;
      return {
        summary: before,
        halted: null,
        files,
        review: null,
        report: null,
        beyond: 0,
        kept: total,
        retried: 0,
      };
    }
    begun = await writeDurably(files.manifest, `${JSON.stringify(manifest)}\n`, modeOf(files.output));
  } finally {
    lock.release();
  }
  try {
    return await runJob(settings, world);
  } catch (error) {
    // Refused before it began: the output stays finished. Another process with the lock owns the run.
    if (!(error instanceof LockedError) && isSame(await fileAt(files.manifest), begun))
      removeManifest(files.manifest);
    throw error;
  }
}

/** @throws UsageError when the options discard rows, or the path may name several outputs */
function assertExtendable({ output, overwrite, restart }: Settings): void {
  if (overwrite || restart) {
    throw new UsageError(
      'bad_options',
      `--extend keeps the rows of the output, and ${overwrite ? '--overwrite' : '--restart'} discards rows`,
      'Give one of them.',
    );
  }
  if (!hasPlaceholder(output.path)) return;
  throw new UsageError(
    'bad_options',
    `--extend adds rows to one file, and the output ${output.path} is another each time`,
    'Name the file with --output FILE.',
  );
}

/** Null when the input has no further rows. */
async function grown(
  settings: Settings,
  before: FinishedSummary,
  world: Unconnected,
): Promise<Manifest | null> {
  const { path } = settings.output;
  const { details } = before;
  assertExtends(settings, before);
  const input = await openInput({ ...settings, input: { ...settings.input, limit: null } }, world);
  try {
    const { survey } = input;
    await assertExtended(input, before);
    if (survey.rows <= before.rows.total) return null;
    const plan = await planRows(settings, survey);
    await assertSameLayout(path, plan.format);
    const files = outputFiles(path);
    if (!(await isUntouched(files.review, plan, settings))) throw reviewInUse(files.review);
    const { tally } = details;
    const size = await sealOfFile(path);
    return {
      v: 1,
      run: newRun(new Date()),
      job: settings.job,
      execution: 1,
      process: thisProcess(),
      started_at: before.started_at,
      worked_ms: before.duration_s * 1000,
      fingerprint: fingerprint(settings, survey.sha256),
      values: partValues(settings),
      chunk_size: settings.limits.chunkSize,
      store: null,
      rows: before.rows.total,
      unwritten: 0,
      ...size,
      overwrite: false,
      stage: 'finished',
      replaces: details.written.sha256,
      ...(plan.reviewed !== null && { reviewing: true }),
      ...(packingOf(path) && { part: { bytes: await lengthOf(outputBytes(path)), seal: '', tally } }),
      calls: {
        ...before.calls,
        in_flight: 0,
        prompt_tokens: before.usage.prompt_tokens,
        completion_tokens: before.usage.completion_tokens,
      },
      tally,
      steps: {},
      timeline: details.timeline,
      since: {
        ...(before.merged_review && { merged_review: before.merged_review }),
        ...(before.retried && { retried: before.retried }),
      },
    };
  } finally {
    input.discard();
  }
}

/** @throws UsageError when the job has changed, or needs all rows of its input at once */
function assertExtends(settings: Settings, { details, output }: StoredSummary): void {
  const { answer, input, reuse } = settings;
  const refuse = (message: string, hint: string): never => {
    throw new UsageError('not_extendable', message, hint);
  };
  const again = 'Run the job again with --overwrite.';
  if (input.path === '-')
    refuse('--extend knows the input by its file, and this is standard input', 'Name a file with --input.');
  if (answer.kind === 'labels' && answer.abstainFor !== undefined) {
    refuse(
      '--extend adds rows, and answer.abstain finds its threshold with all rows of an input together',
      'Take answer.abstain_below with a threshold of your own, or run the job again with --overwrite.',
    );
  }
  if (reuse.onlyNew) {
    refuse(
      '--extend is not needed with input.only_new: it calls no row again that the last run answered',
      again,
    );
  }
  const changed = changes(details.settings, partValues(settings));
  if (changed.length > 0) {
    refuse(
      `since ${output} was made this changed: ${changed.join(', ')}`,
      'Put it back to add the new rows, or run the job again with --overwrite.',
    );
  }
}

const reviewInUse = (review: string): UsageError =>
  new UsageError(
    'review_exists',
    `${review} is not as the run wrote it: somebody may have filled answers in`,
    'Merge it first (promptmill merge-review), or move it away.',
  );

async function lengthOf(bytes: AsyncIterable<Buffer>): Promise<number> {
  let length = 0;
  for await (const piece of bytes) length += piece.length;
  return length;
}
