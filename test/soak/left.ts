import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Redis } from 'ioredis';
import { outputFiles } from '../../src/resume/output-files.js';
import { OUTPUT, type Stage } from './stage.js';

/** What the store keeps of a finished run: heartbeats, the pace, and what BullMQ knows of an empty queue. */
const KEPT_KEYS = /^promptmill:board:|^bull:[^:]+:(stalled-check|events|limiter|id|meta|marker)$/;
/** Bytes of the head of the embedded ledger. */
const EMPTY_LEDGER = 20;
const KEPT_FILES = ['clock.mjs', 'disk', 'job.yaml', 'reference.yaml', 'rows.csv', 'shift'];

/** Processes and files of a finished run, but for what it was to write. */
export function leftOnMachine(stage: Stage): string[] {
  const { folder } = stage.work;
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && cwdOf(name) === folder)
    .map((pid) => `process ${pid}`);
  const files = [
    ...readdirSync(folder).filter((name) => !KEPT_FILES.includes(name) && name !== '.promptmill'),
    ...inStateDirectory(stage),
    ...readdirSync(stage.work.path('disk'))
      .map((name) => join('disk', name))
      .filter((name) => name !== OUTPUT && name !== outputFiles(OUTPUT).summary && !name.endsWith('/.keep')),
  ];
  return [...processes, ...files];
}

/** The embedded store keeps heartbeats, and an empty ledger. */
function inStateDirectory({ work }: Stage): string[] {
  const entries = readdirSync(work.path('.promptmill'), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => relative(work.folder, join(parentPath, name)))
    .filter((path) => !path.startsWith(join('.promptmill', 'board')))
    .filter(
      (path) => !path.endsWith(join('store', 'ledger')) || statSync(work.path(path)).size > EMPTY_LEDGER,
    );
}

function cwdOf(pid: string): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return null;
  }
}

/** What the store has of a finished run. */
export async function leftInStore({ server }: Stage): Promise<string[]> {
  if (server === null) return [];
  const redis = new Redis(server.url);
  const keys = await redis.keys('*');
  redis.disconnect();
  return keys.filter((key) => !KEPT_KEYS.test(key));
}
