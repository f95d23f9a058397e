import { readFileSync, renameSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { errorCode, errorText, UsageError } from '../../core/errors.js';
import { makePrivateFolder } from '../../core/folder.js';
import { parseJson } from '../../core/json.js';
import { writeDurably } from '../../output/writer.js';

const amount = z.int().nonnegative();
const tokens = z.object({ prompt_tokens: amount, completion_tokens: amount });
const id = z.string().nullable();

/**
 * The life of an input file. Each step is on disk before it is taken, so that a process that finds `uploading` or
 * `creating` looks for what may be there before it makes another.
 * - `planned`: on this disk. `running`: a batch of the service. `ended`: its results can be had.
 * - `read`: they are on this disk. `cleared`: nothing of it is left at the service.
 */
const STEPS = [
  'planned',
  'uploading',
  'uploaded',
  'creating',
  'running',
  'ended',
  'read',
  'cleared',
] as const;

const fileSchema = z.object({
  /** On this disk and at the service; it has the name of the run. */
  name: z.string().regex(/^[\w.-]+$/),
  /** Rows that it covers, from 1; those that need no call are not in it. */
  first: amount,
  last: amount,
  requests: amount,
  bytes: amount,
  /** Some of its lines were left out, which the service had not taken. */
  reduced: z.boolean(),
  /** Most that it can be billed, as the budget counts; then what it was billed. */
  most: tokens,
  step: z.enum(STEPS),
  /** Ids at the service. */
  file: id,
  batch: id,
  output: id,
  errors: id,
  status: z.string().nullable(),
  counts: z.object({ total: z.number(), completed: z.number(), failed: z.number() }).nullable(),
  created_at: z.string().nullable(),
  ended_at: z.string().nullable(),
});

export type BatchFile = z.output<typeof fileSchema>;

const recordSchema = z.object({
  v: z.literal(1),
  run: z.string(),
  /** When the run's first batch was created, in ms since 1970; null before. */
  since: amount.nullable(),
  /** All rows behind the last file are called one by one. */
  over: z.boolean(),
  /** Most requests of a file, once the service had no room for more. */
  requests: amount.nullable(),
  /** Number of the next file. */
  next: amount,
  /** In the order of their rows, which follow each other without a gap. */
  files: z.array(fileSchema),
});

type RecordShape = z.output<typeof recordSchema>;

const RECORD = 'record.json';

const batchesFolder = (stateDir: string): string => join(stateDir, 'batches');

/** What a run knows of its batches, in a folder of the state directory with their files. */
export class BatchRecord {
  #saving: Promise<unknown> = Promise.resolve();

  private constructor(
    readonly folder: string,
    private readonly record: RecordShape,
  ) {}

  /** Null when the run has none. @throws UsageError when it cannot be read */
  static find(stateDir: string, run: string): BatchRecord | null {
    const folder = join(batchesFolder(stateDir), run);
    const path = join(folder, RECORD);
    try {
      const found = recordSchema.safeParse(parseJson(readFileSync(path, 'utf8')));
      if (found.success) return new BatchRecord(folder, { ...found.data, run });
      const message = `${path} is no record of batches`;
      throw new UsageError(
        'batches_unreadable',
        message,
        'Put it back as it was, or start over with --restart.',
      );
    } catch (error) {
      if (error instanceof UsageError) throw error;
      if (errorCode(error) === 'ENOENT') return null;
      throw new UsageError(
        'batches_unreadable',
        `cannot read ${path}: ${errorText(error)}`,
        'Make it readable.',
      );
    }
  }

  /** A run that goes on under another name takes its batches along. */
  static async move(stateDir: string, from: string, run: string): Promise<void> {
    const record = BatchRecord.find(stateDir, from);
    if (record === null) return;
    await record.save({ run });
    renameSync(record.folder, join(batchesFolder(stateDir), run));
  }

  static begin(stateDir: string, run: string): BatchRecord {
    const folder = join(batchesFolder(stateDir), run);
    makePrivateFolder(folder);
    const empty = { since: null, over: false, requests: null, next: 1, files: [] };
    return new BatchRecord(folder, { v: 1, run, ...empty });
  }

  get known(): Readonly<RecordShape> {
    return this.record;
  }

  get files(): readonly BatchFile[] {
    return this.record.files;
  }

  /** The last row that a file covers; 0 before the first. */
  get covered(): number {
    return this.record.files.at(-1)?.last ?? 0;
  }

  pathOf(name: string): string {
    return join(this.folder, name);
  }

  /** Durable when it resolves. @throws WriteError */
  async save(changes: Partial<RecordShape>): Promise<void> {
    Object.assign(this.record, changes);
    await this.#write();
  }

  /** Durable when it resolves. @throws WriteError */
  async note(file: BatchFile, changes: Partial<BatchFile>): Promise<void> {
    Object.assign(file, changes);
    await this.#write();
  }

  /** One write at a time, each with all that is known by then. */
  async #write(): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {})
      .then(() => writeDurably(join(this.folder, RECORD), `${JSON.stringify(this.record)}\n`, 0o600));
    await this.#saving;
  }

  async remove(name: string): Promise<void> {
    await rm(this.pathOf(name), { force: true });
  }

  discard(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
