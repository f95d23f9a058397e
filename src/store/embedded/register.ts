import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makePrivateFolder } from '../../folder.js';
import { acquireLock, type Lock, LockedError } from '../../lock.js';
import type { Register, RegisterReply } from '../register.js';

/** Pause before looking again for a lock that another process holds, in milliseconds. */
const AGAIN_MS = 3;
/** Looks before the register is given up as unusable. */
const LOOKS = 300;

/**
 * The register for the embedded store: files in the state directory, because runs of one state directory have a
 * database each and one quota. Readers need no lock: a change is a rename.
 */
export class FileRegister implements Register {
  /** @param directory made when it is missing */
  constructor(private readonly directory: string) {}

  async read(name: string): Promise<RegisterReply> {
    return { text: this.#text(name), written: false, now: Date.now() };
  }

  async swap(name: string, before: string | null, after: string): Promise<RegisterReply> {
    makePrivateFolder(this.directory);
    const lock = await this.#lock(name);
    try {
      const text = this.#text(name);
      if (text !== before) return { text, written: false, now: Date.now() };
      const file = this.#file(name);
      writeFileSync(`${file}.new`, after, { mode: 0o600 });
      renameSync(`${file}.new`, file);
      return { text: after, written: true, now: Date.now() };
    } finally {
      lock.release();
    }
  }

  async #lock(name: string): Promise<Lock> {
    for (let look = 1; ; look++) {
      try {
        return await acquireLock(`${this.#file(name)}.lock`, { purpose: 'its pace' });
      } catch (error) {
        if (!(error instanceof LockedError) || look === LOOKS) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  #text(name: string): string | null {
    try {
      return readFileSync(this.#file(name), 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
      throw error;
    }
  }

  #file(name: string): string {
    return join(this.directory, name);
  }
}
