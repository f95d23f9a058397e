import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Body } from '../operation.js';
import { idNotFound, invalidRequest } from '../refusal.js';
import { readForm } from './form.js';

/** A file that was uploaded, or that a batch wrote. */
export interface StoredFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: 'batch' | 'batch_output';
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** From when on it can be used. */
  readonly readyAt: number;
  /** Where its bytes are. */
  readonly path: string;
}

/** A file that is being written. */
export interface Draft {
  readonly id: string;
  readonly path: string;
  readonly handle: FileHandle;
}

/** Bytes of an upload, whatever it is for. */
const LARGEST_UPLOAD = 512 * 1024 * 1024;
/** Bytes of a field that is no file. */
const LONGEST_VALUE = 1024;

/** Files in a temporary folder, which {@link close} removes. */
export class Files {
  readonly #stored = new Map<string, StoredFile>();
  readonly #drafts = new Set<Draft>();
  #folder: Promise<string> | null = null;

  /** Newest first. */
  get all(): StoredFile[] {
    return [...this.#stored.values()].reverse();
  }

  /** @throws Refusal */
  get(id: string): StoredFile {
    const found = this.#stored.get(id);
    if (!found) throw idNotFound('file', id);
    return found;
  }

  async draft(): Promise<Draft> {
    this.#folder ??= mkdtemp(join(tmpdir(), 'promptmill-emulator-'));
    const id = `file-${randomUUID().replaceAll('-', '')}`;
    const path = join(await this.#folder, id);
    const draft = { id, path, handle: await open(path, 'wx') };
    this.#drafts.add(draft);
    return draft;
  }

  /** The draft becomes a file. */
  async keep(draft: Draft, about: Omit<StoredFile, 'bytes' | 'id' | 'path'>): Promise<StoredFile> {
    const { id, path, handle } = draft;
    const { size } = await handle.stat();
    await this.#close(draft);
    const file = { id, path, bytes: size, ...about };
    this.#stored.set(id, file);
    return file;
  }

  async drop(draft: Draft): Promise<void> {
    await this.#close(draft);
    await rm(draft.path, { force: true });
  }

  /** @param isInUse whether its bytes are still needed. @throws Refusal */
  async delete(id: string, isInUse: boolean): Promise<void> {
    const { path } = this.get(id);
    this.#stored.delete(id);
    if (!isInUse) await rm(path, { force: true });
  }

  /** Whoever still writes a file fails. */
  async close(): Promise<void> {
    await Promise.all([...this.#drafts].map((draft) => this.#close(draft)));
    if (this.#folder) await rm(await this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async #close(draft: Draft): Promise<void> {
    this.#drafts.delete(draft);
    await draft.handle.close();
  }
}

/** Takes an upload. @param about besides its name. @throws Refusal */
export async function upload(
  files: Files,
  contentType: string | undefined,
  body: AsyncIterable<Buffer>,
  about: Pick<StoredFile, 'createdAt' | 'readyAt'>,
): Promise<StoredFile> {
  const draft = await files.draft();
  try {
    const filename = await writeForm(contentType, body, draft.handle);
    return await files.keep(draft, { filename, purpose: 'batch', ...about });
  } catch (error) {
    await files.drop(draft);
    throw error;
  }
}

/** Writes the field `file`. @returns its name. @throws Refusal */
async function writeForm(
  contentType: string | undefined,
  body: AsyncIterable<Buffer>,
  handle: FileHandle,
): Promise<string> {
  let field = '';
  let filename: string | null = null;
  let purpose = '';
  let size = 0;
  for await (const piece of readForm(contentType, body)) {
    if (!Buffer.isBuffer(piece)) {
      field = piece.name;
      if (field === 'file') filename = piece.filename ?? '';
    } else if (field === 'file') {
      size += piece.length;
      if (size > LARGEST_UPLOAD) throw invalidRequest('The file is larger than 512 MB.', 'file');
      await handle.writeFile(piece);
    } else if (field === 'purpose') purpose = (purpose + piece.toString()).slice(0, LONGEST_VALUE);
  }
  if (filename === null) throw invalidRequest("'file' is a required property", 'file');
  if (purpose !== 'batch')
    throw invalidRequest(`'${purpose}' is not one of ['batch'] - 'purpose'`, 'purpose');
  return filename;
}

/** @param now milliseconds since 1970 */
export function fileBody(file: StoredFile, now: number): Body {
  const { id, bytes, filename, purpose, createdAt, readyAt } = file;
  return {
    ...{ id, object: 'file', bytes, created_at: Math.floor(createdAt / 1000), filename, purpose },
    ...{ status: now >= readyAt ? 'processed' : 'pending', status_details: null },
  };
}
