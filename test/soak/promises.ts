import { createReadStream, existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { type Counters, NO_CALLS } from '../../src/core/counters.js';
import type { Stats } from '../../src/emulator/stats.js';
import { outputFiles } from '../../src/resume/output-files.js';
import { leftInStore, leftOnMachine } from './left.js';
import { OUTPUT, REFERENCE, type Stage } from './stage.js';

/** One promise of docs/guarantees.md, and whether it was kept. */
export interface Promised {
  readonly promise: string;
  /** What broke it; empty when it was kept. */
  readonly broken: readonly string[];
  /** The figures. */
  readonly seen: string;
}

/** What the run says of itself: its summary, or the manifest of a run that was stopped. */
interface Told {
  readonly rows: number;
  readonly calls: Counters;
  readonly tokens: number | null;
}

/** In MB; docs/performance.md has what a run takes undisturbed. */
const MOST_MB = { producer: 350, worker: 300 };
/** How much more a process may take in the second half of the time than in the first: what it has not yet collected. */
const GROWN = { share: 1.25, mb: 30 };
/** Of a run that came to nothing. */
const NOTHING: Told = { rows: 0, calls: NO_CALLS, tokens: 0 };

const { manifest, part, summary } = outputFiles(OUTPUT);

/** Looks whether every promise was kept, once all processes have been asked to end. */
export async function checked(
  stage: Stage,
  looksAtStore: boolean,
): Promise<Pick<Told, 'rows' | 'calls'> & { promises: Promised[] }> {
  const told = toldBy(stage);
  const left = [
    ...(stage.isFinished ? leftOnMachine(stage) : []),
    ...(stage.isFinished && looksAtStore ? await leftInStore(stage) : []),
  ];
  const whereLooked = stage.isFinished ? `processes, files${looksAtStore ? ', store' : ''}` : 'not looked at';
  const reference = await undisturbed(stage, told.rows);
  const promises = [
    promise('no process ends but by a fault', stage.oddEnds, `${stage.parts.length} kept alive`),
    await oneRecordForEachRow(stage, told),
    await sameBytes(stage, reference),
    figuresAgree(stage, told, reference),
    calls(stage, told),
    repeats(stage, told),
    promise('nothing is left behind', left, whereLooked),
    memory(stage),
  ];
  return { rows: told.rows, calls: told.calls, promises };
}

function receivedBy({ received }: Stage): Stats {
  if (received === null) throw new Error('the processes have not ended');
  return received;
}

const promise = (what: string, broken: readonly string[], seen: string): Promised => ({
  ...{ promise: what, broken, seen },
});

function toldBy(stage: Stage): Told {
  const { work } = stage;
  if (!stage.isFinished) {
    if (!existsSync(work.path(manifest))) return NOTHING;
    const { rows, calls } = work.json(manifest) as unknown as Told;
    return { rows, calls, tokens: null };
  }
  const { rows, calls, usage } = work.json(summary) as unknown as {
    rows: { total: number; completed: number };
    calls: Counters;
    usage: { total_tokens: number };
  };
  return { rows: rows.completed, calls, tokens: usage.total_tokens };
}

/** A run over the same rows to which nothing happens, on its own store. */
async function undisturbed({ work, emulator, rules }: Stage, rows: number): Promise<Told> {
  rules.length = 0;
  if (rows === 0) return NOTHING;
  const { code, stderr } = await work.run(['run', 'reference.yaml', '--quiet', '--limit', String(rows)], {
    PROMPTMILL_BASE_URL: emulator.url,
    PROMPTMILL_API_KEY: emulator.keys[0],
  });
  if (code !== 0) throw new Error(`the undisturbed run ended with ${code}: ${stderr}`);
  const { usage, calls } = work.json(outputFiles(REFERENCE).summary) as unknown as {
    usage: { total_tokens: number };
    calls: Counters;
  };
  return { rows, calls, tokens: usage.total_tokens };
}

async function oneRecordForEachRow(stage: Stage, { rows }: Told): Promise<Promised> {
  const what = 'one record for each row, in input order';
  const broken: string[] = [];
  if (rows === 0) return promise(what, ['none was written'], '0 rows');
  const path = stage.work.path(stage.isFinished ? OUTPUT : part);
  let row = -1;
  for await (const line of createInterface({ input: createReadStream(path) })) {
    row++;
    if (row > 0 && row <= rows && !line.startsWith(`${row},`) && broken.length < 5) {
      broken.push(`record ${row} is ${line}`);
    }
  }
  if (stage.isFinished && (row !== stage.rows || rows !== stage.rows)) {
    broken.push(`${row} records, ${rows} completed, of ${stage.rows} rows`);
  }
  if (row < rows) broken.push(`${row} records, and the manifest says ${rows}`);
  return promise(what, broken, `${rows} rows`);
}

async function sameBytes(stage: Stage, { rows }: Told): Promise<Promised> {
  const what = 'the bytes of an undisturbed run';
  if (rows === 0) return promise(what, [], 'no rows');
  const a = await open(stage.work.path(stage.isFinished ? OUTPUT : part));
  const b = await open(stage.work.path(REFERENCE));
  try {
    const size = (await b.stat()).size;
    const broken: string[] = [];
    if (stage.isFinished && (await a.stat()).size !== size) broken.push('the sizes differ');
    const piece = 1 << 20;
    for (let at = 0; at < size && broken.length === 0; at += piece) {
      const length = Math.min(piece, size - at);
      const [one, other] = [Buffer.alloc(length), Buffer.alloc(length)];
      await a.read(one, 0, length, at);
      await b.read(other, 0, length, at);
      if (!one.equals(other)) broken.push(`they differ between byte ${at} and byte ${at + length}`);
    }
    return promise(what, broken, `${size} bytes`);
  } finally {
    await a.close();
    await b.close();
  }
}

function figuresAgree(stage: Stage, told: Told, reference: Told): Promised {
  const broken: string[] = [];
  if (told.tokens !== null && told.tokens !== reference.tokens) {
    broken.push(`${told.tokens} tokens, undisturbed ${reference.tokens}`);
  }
  if (told.tokens !== null) {
    const { duration_s } = stage.work.json(summary);
    const most = stage.seconds() + 5;
    if (!(Number(duration_s) > 0 && Number(duration_s) < most)) {
      broken.push(`a duration of ${duration_s} s in ${most} s`);
    }
  }
  return promise('the figures of the summary', broken, `${told.tokens ?? '-'} tokens`);
}

/** Every call that the service has seen is counted; more are only those that a killed process had reserved and not made. */
function calls(stage: Stage, { calls }: Told): Promised {
  const { unknown } = stage;
  const { requests, by_status } = receivedBy(stage);
  const broken: string[] = [];
  const refused = by_status['429'] ?? 0;
  // What the last workers have told is in the summary, and not yet in the manifest of a run that was stopped.
  if (stage.isFinished && calls.sent < requests) broken.push('calls that are not counted');
  if (calls.sent > requests + unknown) broken.push('more than were made and may be unknown');
  if (calls.rate_limited > refused || (stage.isFinished && calls.rate_limited < refused - unknown)) {
    broken.push(`${calls.rate_limited} were rate limited, by the service ${refused}`);
  }
  return promise('every call is counted', broken, `${calls.sent} told, ${requests} seen by the service`);
}

function repeats(stage: Stage, told: Told): Promised {
  const { answered, by_fault, distinct_prompts } = receivedBy(stage);
  const lost = ['reset', 'truncate', 'hang'].reduce((sum, name) => sum + (by_fault[name] ?? 0), 0);
  // All answers but the first to each prompt. Of a run that is not finished some are answered and not yet written.
  const least = stage.isFinished ? answered + lost - distinct_prompts : 0;
  const broken: string[] = [];
  if (told.calls.repeated < least) broken.push(`the service saw ${least}`);
  if (told.calls.repeated > lost + stage.unknown) {
    broken.push(`at most ${lost} broken calls and ${stage.unknown} that were under way at an end`);
  }
  const seen = `${told.calls.repeated} told, ${least} seen, at most ${lost + stage.unknown}`;
  return promise('repeats are counted, and bounded', broken, seen);
}

function memory(stage: Stage): Promised {
  const peaks = stage.memory.peaks();
  const broken = peaks.flatMap(({ role, halves: [first, second] }) => {
    if (role !== 'producer' && role !== 'worker') return [];
    const most = MOST_MB[role];
    return [
      ...(Math.max(first, second) > most
        ? [`a ${role} took ${Math.max(first, second)} MB, not ${most}`]
        : []),
      ...(second > first * GROWN.share + GROWN.mb ? [`a ${role} took ${first} MB, and later ${second}`] : []),
    ];
  });
  const seen = peaks.map(({ role, halves }) => `${role} ${halves.join(', then ')} MB`).join('; ');
  return promise('memory is bounded, and flat', broken, seen);
}
