import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { makePrivateFolder } from '../folder.js';
import { writeDurably } from '../resume/manifest.js';
import { lastRun } from './last-run.js';

const mark = z.object({
  v: z.literal(1),
  job: z.string(),
  path: z.string(),
  /** The fire that was taken last. */
  entry: z.string(),
  /** ISO 8601. */
  since: z.string(),
  /** A run was begun and has not come to its end. */
  running: z.boolean(),
  /** Absolute path of the manifest of that run, once there is one: it is gone when the run is finished. */
  manifest: z.string().nullable(),
  last: lastRun.nullable(),
});
export type Mark = z.output<typeof mark>;

/**
 * What `serve` knows of each job, in a file of its own: which fire it took, and whether the run of it has come to its
 * end. It is on disk before the queue forgets the fire, so that a run that is killed at any moment, also before its first
 * row, is completed by the next `serve`.
 */
export class Marks {
  readonly #marks = new Map<string, Mark>();

  /** @param folder of the files, and of nothing else; made when it is missing */
  constructor(private readonly folder: string) {
    makePrivateFolder(folder);
    for (const found of readMarks(folder)) this.#marks.set(found.job, found);
  }

  get(job: string): Mark | undefined {
    return this.#marks.get(job);
  }

  /** The jobs whose runs were begun and have not come to their ends. */
  unfinished(): Mark[] {
    return [...this.#marks.values()].filter(({ running }) => running);
  }

  /** @throws WriteError; then the old mark stands */
  async put(next: Omit<Mark, 'v'>): Promise<void> {
    const written: Mark = { v: 1, ...next };
    await writeDurably(join(this.folder, `${next.job}.json`), `${JSON.stringify(written)}\n`);
    this.#marks.set(next.job, written);
  }
}

/** The marks in a folder, also while a `serve` goes on; those that cannot be read are left out. */
export function readMarks(folder: string): Mark[] {
  return namesIn(folder).flatMap((name) => {
    try {
      const parsed = mark.safeParse(JSON.parse(readFileSync(join(folder, name), 'utf8')));
      return parsed.success ? parsed.data : [];
    } catch {
      return [];
    }
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'));
  } catch {
    return [];
  }
}
