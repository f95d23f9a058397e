import type fs from 'node:fs';
import type promises from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, expect } from 'vitest';

// Not imported: what mocks a module is loaded by the first import of it, and would wait for itself.
const real = process.getBuiltinModule('node:fs');
const { constants, existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync } = real;
const { readFileSync, rmdirSync, statSync, unlinkSync, writeFileSync } = real;

/** When a process dies, and what becomes of what it wrote. */
interface PlannedCrash {
  /** Operations on the disk that it still completes. */
  readonly after: number;
  /** The machine goes down with it: what was not synced may be lost, whole or in part. */
  readonly power: boolean;
  /** Chooses what is lost; from 0 up to 1. */
  readonly chance: () => number;
}

type Names = ReadonlyMap<string, number>;

/**
 * A folder of a real file system whose process can die between any two operations, or in the middle of a write,
 * and whose machine can lose power. After a sync the content of a file is safe; after a sync of the folder its
 * names are. Before it, names change in the order of the operations, but how far is open.
 */
class CrashingDisk {
  readonly #paths = new Map<FileHandle, string>();
  readonly #safeContent = new Map<number, Buffer>();
  readonly #removed = new Map<number, Buffer>();
  #folder = '';
  /** What the folder may look like after a loss of power: as last synced, or as after any later change. */
  #names: Names[] = [];
  #crash: PlannedCrash | null = null;
  #left = 0;
  #dead = false;

  /** Begins anew, with an empty folder. */
  async use(folder: string): Promise<void> {
    this.#crash = null;
    await this.reboot();
    this.#folder = folder;
    this.#safeContent.clear();
    this.#removed.clear();
    this.#names = [this.#listed()];
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** A new process, which will die of this crash; null is one that lives. */
  arm(crash: PlannedCrash | null): void {
    this.#crash = crash;
    this.#left = crash?.after ?? Number.POSITIVE_INFINITY;
    this.#dead = false;
  }

  /** The process has ended: its files are closed, and after a loss of power the disk has what it kept. */
  async reboot(): Promise<void> {
    for (const handle of this.#paths.keys()) await handle.close();
    this.#paths.clear();
    if (this.#dead && this.#crash?.power) this.#losePower(this.#crash.chance);
    this.#crash = null;
    this.#left = Number.POSITIVE_INFINITY;
    this.#dead = false;
  }

  /** One operation: done, or the last breath, with what is done by then of the half-way. */
  async step<T>(work: () => Promise<T>, halfway: (share: number) => Promise<unknown> = async () => {}) {
    if (this.#dead) throw new Error('a dead process does nothing');
    if (this.#left-- > 0) return await work();
    this.#dead = true;
    await halfway(this.#crash?.chance() ?? 0);
    throw new Error('crash');
  }

  stepSync(work: () => void): void {
    if (this.#dead || this.#left-- <= 0) {
      this.#dead = true;
      throw new Error('crash');
    }
    work();
  }

  opened(handle: FileHandle, path: string): void {
    this.#paths.set(handle, path);
  }

  closed(handle: FileHandle): void {
    this.#paths.delete(handle);
  }

  async sync(descriptor: number): Promise<void> {
    const [handle, path] = [...this.#paths].find(([{ fd }]) => fd === descriptor) ?? [];
    if (handle === undefined || path === undefined) throw new Error('a file that is not open');
    await handle.sync();
    this.synced(path);
  }

  synced(path: string): void {
    if (path === this.#folder) this.#names = [this.#listed()];
    else this.#safeContent.set(statSync(path).ino, readFileSync(path));
  }

  /** Remembers what a name stood for: without power its removal may not have happened. */
  removing(path: string): void {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found !== undefined) this.#removed.set(found.ino, readFileSync(path));
  }

  renamed(): void {
    this.#names.push(this.#listed());
  }

  #listed(): Names {
    return new Map(readdirSync(this.#folder).map((name) => [name, statSync(join(this.#folder, name)).ino]));
  }

  #losePower(chance: () => number): void {
    const names = this.#names[Math.floor(chance() * this.#names.length)] ?? new Map();
    const live = new Map(
      [...this.#listed()].map(([name, ino]) => [ino, readFileSync(join(this.#folder, name))]),
    );
    const kept = new Map<string, Buffer>();
    for (const [name, ino] of names) {
      const written = live.get(ino) ?? this.#removed.get(ino) ?? Buffer.alloc(0);
      kept.set(name, torn(this.#safeContent.get(ino) ?? Buffer.alloc(0), written, chance));
    }
    for (const name of this.#listed().keys()) unlinkSync(join(this.#folder, name));
    const firstNames = new Map<number, string>();
    for (const [name, content] of kept) {
      const ino = names.get(name) ?? 0;
      const first = firstNames.get(ino);
      // Two names of one file stay that.
      if (first === undefined) writeFileSync(join(this.#folder, name), content);
      else linkSync(join(this.#folder, first), join(this.#folder, name));
      firstNames.set(ino, first ?? name);
    }
    this.#safeContent.clear();
    for (const [name, ino] of this.#listed())
      this.#safeContent.set(ino, readFileSync(join(this.#folder, name)));
    this.#removed.clear();
    this.#names = [this.#listed()];
  }
}

/** What is found of a file that was not synced: the old, the new, a beginning of the new, or zeros in its place. */
function torn(safe: Buffer, written: Buffer, chance: () => number): Buffer {
  const at = Math.floor(chance() * (written.length + 1));
  switch (Math.floor(chance() * 4)) {
    case 0:
      return safe;
    case 1:
      return written;
    case 2:
      return Buffer.concat([written.subarray(0, at), safe.subarray(at)]);
    default:
      return Buffer.concat([safe, Buffer.alloc(Math.max(0, written.length - safe.length))]);
  }
}

export const disk = new CrashingDisk();

/** `node:fs/promises` on the disk that can crash: the calls that write. */
export function crashingPromises(real: typeof promises): object {
  return {
    ...real,
    open: (path: string, flags: string | number, mode?: number) =>
      disk.step(async () => {
        const handle = await real.open(path, flags, mode);
        disk.opened(handle, path);
        if (typeof flags === 'number' && (flags & constants.O_CREAT) !== 0) disk.renamed();
        return crashingHandle(handle);
      }),
    writeFile: async (file: FileHandle, content: string | AsyncIterable<string | Buffer>) => {
      const pieces: Buffer[] = [];
      for await (const piece of content) pieces.push(Buffer.from(piece));
      await file.writeFile(Buffer.concat(pieces));
    },
    rename: (from: string, to: string) =>
      disk.step(async () => {
        disk.removing(to);
        await real.rename(from, to);
        disk.renamed();
      }),
    link: (from: string, to: string) =>
      disk.step(async () => {
        await real.link(from, to);
        disk.renamed();
      }),
    rm: (path: string, options: object) =>
      disk.step(async () => {
        disk.removing(path);
        await real.rm(path, options);
        disk.renamed();
      }),
  };
}

/** `node:fs` on the same disk; its readers are those of the system. */
export function crashingFs(real: typeof fs): object {
  const rmSync = (path: string, options: object): void =>
    disk.stepSync(() => {
      disk.removing(path);
      real.rmSync(path, options);
      disk.renamed();
    });
  const fsync = (descriptor: number, done: (error: unknown) => void): void => {
    disk.step(() => disk.sync(descriptor)).then(() => done(null), done);
  };
  return { ...real, rmSync, fsync, fdatasync: fsync, default: real };
}

function crashingHandle(handle: FileHandle): object {
  return {
    fd: handle.fd,
    write: (data: Buffer, offset: number, length: number, position: number) =>
      disk.step(
        () => handle.write(data, offset, length, position),
        (share) => handle.write(data, offset, Math.floor(share * length), position),
      ),
    writeFile: (content: Buffer) =>
      disk.step(
        () => handle.writeFile(content),
        (share) => handle.writeFile(content.subarray(0, Math.floor(share * content.length))),
      ),
    chmod: (mode: number) => disk.step(() => handle.chmod(mode)),
    stat: () => handle.stat(),
    read: (buffer: Buffer, offset: number, length: number, position: number) =>
      handle.read(buffer, offset, length, position),
    truncate: (length: number) => disk.step(() => handle.truncate(length)),
    close: () =>
      disk.step(async () => {
        await handle.close();
        disk.closed(handle);
      }),
  };
}

/** A file system in memory, where there is one: a disk would take minutes for all that is synced here. */
const MEMORY = '/dev/shm';

/** How a process dies, and what its answers had in common until then. */
export interface Crash {
  /** Operations on the disk that it completes. */
  readonly after: number;
  /** The machine goes down with it. */
  readonly power: boolean;
  /** A record that is written again can be shorter than the one that a crash left behind the mark. */
  readonly latency: number;
  /** What is lost without power. */
  readonly dice: readonly number[];
}

/** @param operations some more than one life takes, so that most crashes come true and some do not */
export const crashWithin = (operations: number): fc.Arbitrary<Crash> =>
  fc.record({
    after: fc.nat(operations),
    power: fc.boolean(),
    latency: fc.constantFrom(1, 1_000_000),
    dice: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 8 }),
  });

/**
 * A folder on the disk that crashes, in which processes live one after the other. The test has to put that disk in the place of
 * `node:fs` and `node:fs/promises`.
 */
export class CrashFolder {
  /** Processes that died so far. */
  died = 0;

  readonly path: string;

  constructor(name = 'work') {
    const parent = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-crash-'));
    this.path = join(parent, name);
    mkdirSync(this.path);
    afterAll(() => {
      this.#empty();
      rmdirSync(this.path);
      rmdirSync(parent);
    });
  }

  /** Begins anew, with nothing but these files, which no crash takes away. */
  async begin(files: Readonly<Record<string, string | Buffer>> = {}): Promise<void> {
    this.#empty();
    await disk.use(this.path);
    for (const [name, content] of Object.entries(files)) writeFileSync(this.at(name), content);
    this.synced();
  }

  /** What is there now is safe. */
  synced(): void {
    for (const name of this.names) disk.synced(this.at(name));
    disk.synced(this.path);
  }

  /**
   * A process lives until it has done its work, or dies.
   * @returns whether it came to its end; its error, where it is not its death, is thrown
   */
  async lives({ after, power, dice }: Crash, work: () => Promise<unknown>): Promise<boolean> {
    let throws = 0;
    disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
    try {
      await work();
      return true;
    } catch (error) {
      if (!disk.dead) throw error;
      return false;
    } finally {
      if (disk.dead) this.died++;
      await disk.reboot();
    }
  }

  /**
   * Processes die of these, one after the other, until one comes to its end or the work is done; the last one lives.
   * @param look at what each of them left
   */
  async outlived(
    crashes: readonly Crash[],
    live: (latency: number) => Promise<unknown>,
    isDone: () => boolean,
    look: () => void = () => {},
  ): Promise<void> {
    for (const crash of crashes) {
      const ended = await this.lives(crash, () => live(crash.latency));
      look();
      if (ended || isDone()) break;
    }
    if (!isDone()) await live(20);
  }

  /** A property holds, and processes died while it was tried: otherwise nothing was. */
  async holds<T>(
    property: fc.IAsyncPropertyWithHooks<T>,
    { seed = 42, numRuns, deaths = numRuns }: { seed?: number; numRuns: number; deaths?: number },
  ): Promise<void> {
    const before = this.died;
    await fc.assert(property, { seed, numRuns });
    expect(this.died - before).toBeGreaterThan(deaths);
  }

  at(name: string): string {
    return join(this.path, name);
  }

  has(name: string): boolean {
    return existsSync(this.at(name));
  }

  /** An output of which nothing is left to do: then a process says that it exists. */
  isFinished(name: string): boolean {
    return this.has(name) && !this.has(`${name}.run.json`);
  }

  /** The text of a file, unpacked where it is packed. */
  text(name: string): string {
    const bytes = readFileSync(this.at(name));
    return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
  }

  /** Of all files, sorted. */
  get names(): string[] {
    return readdirSync(this.path).sort();
  }

  #empty(): void {
    for (const name of this.names) unlinkSync(this.at(name));
  }
}
