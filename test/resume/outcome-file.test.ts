import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CalledOutcome } from '../../src/core/model.js';
import {
  isFinishedBy,
  OutcomeFile,
  OutcomeReader,
  outcomesPath,
  type StoredOutcome,
  scan,
  takenOver,
} from '../../src/resume/outcome-file.js';
import { blockedPrompt, completed, failed } from '../output/records.js';
import { Workplace } from '../support/promptmill.js';

const kept = (number: number, outcome: CalledOutcome = completed): Omit<StoredOutcome, 'usage'> => ({
  row: `row-${String(number).padStart(12, '0')}`,
  request: null,
  number,
  run: 'a-run',
  outcome,
});

describe('a file of outcomes', () => {
  let work: Workplace;
  let path: string;
  beforeEach(() => {
    work = new Workplace();
    path = work.path('outcomes.jsonl');
  });
  afterEach(() => work.remove());

  /** Opens it as a run that has committed so many rows, and gives what it found. */
  async function open(rows: number): Promise<{ file: OutcomeFile; found: number[] }> {
    const found: number[] = [];
    const file = await OutcomeFile.open(path, rows, ({ number }) => found.push(number));
    return { file, found };
  }

  async function write(...rows: readonly Omit<StoredOutcome, 'usage'>[]): Promise<readonly number[]> {
    const { file } = await open(0);
    const places = await file.append(rows);
    await file.close();
    return places;
  }

  it('gives outcomes back by their places, as not billed, and beside them what was paid', async () => {
    const long = { ...completed, completion: { ...completed.completion, text: 'ä\ud800"\n'.repeat(20_000) } };
    const rows = [kept(1), kept(2, blockedPrompt), kept(3, long), kept(4, failed)];
    const places = await write(...rows);
    const reader = new OutcomeReader(path);
    expect(places.map((at) => reader.at(at).number)).toEqual([1, 2, 3, 4]);
    const usage = null;
    const free = { attempts: 0, latency_ms: null };
    expect(reader.at(places[0] ?? -1)).toEqual({
      ...kept(1),
      outcome: { ...completed, completion: { ...completed.completion, usage }, ...free },
      usage: completed.completion.usage,
    });
    expect(reader.at(places[1] ?? -1).outcome).toEqual({ ...blockedPrompt, ...free });
    expect(reader.at(places[2] ?? -1).outcome).toMatchObject({ completion: { text: long.completion.text } });
    reader.close();
  });

  it('is continued behind the rows that are committed; what else it has is cut off', async () => {
    await write(kept(1), kept(3), kept(4), kept(9));
    const { file, found } = await open(5);
    expect(found).toEqual([1, 3, 4]);
    const [at = -1] = await file.append([kept(6)]);
    expect(file.at(at).number).toBe(6);
    await file.close();
    const again = await open(100);
    expect(again.found).toEqual([1, 3, 4, 6]);
    await again.file.close();
  });

  it('leaves out a last line that a crash has torn, at every byte', async () => {
    await write(kept(1, failed), kept(2, failed));
    const whole = readFileSync(path);
    const first = whole.indexOf('\n') + 1;
    for (let size = first; size < whole.length; size++) {
      writeFileSync(path, whole.subarray(0, size));
      const { file, found } = await open(2);
      await file.close();
      expect(found).toEqual([1]);
      expect(readFileSync(path).length).toBe(first);
    }
  });

  it('begins anew where nothing is committed', async () => {
    await write(kept(1));
    const { file, found } = await open(0);
    await file.close();
    expect(found).toEqual([]);
    expect(readFileSync(path, 'utf8')).toBe('');
  });

  it('leaves out what is no outcome, and goes on behind it', async () => {
    await write(kept(1));
    const good = readFileSync(path, 'utf8');
    const bad = ['', '{}', '[1]', '["x",null,1,"r",{"status":"completed"}]', '\0\0\0', 'null'];
    const odd = JSON.stringify([null, null, 2, 'r', { status: 'skipped' }]);
    writeFileSync(path, `${bad.join('\n')}\n${odd}\n${good}`);
    const numbers: number[] = [];
    await scan(path, ({ number }) => numbers.push(number) > 0);
    expect(numbers).toEqual([1]);
  });

  it('says which run has finished it, and no other', async () => {
    const { file } = await open(0);
    await file.append([kept(1)]);
    const reader = new OutcomeReader(path);
    expect(isFinishedBy(reader, 'a-run')).toBe(false);
    await file.finish('a-run');
    expect(isFinishedBy(reader, 'a-run')).toBe(true);
    expect(isFinishedBy(reader, 'b-run')).toBe(false);
    const numbers: number[] = [];
    await scan(path, ({ number }) => numbers.push(number) > 0);
    expect(numbers).toEqual([1]);
    reader.close();
  });

  it('that does not hold any more what it held stops the run, and names the file', async () => {
    const [, at = -1] = await write(kept(1), kept(2));
    const reader = new OutcomeReader(path);
    truncateSync(path, at + 10);
    expect(() => reader.at(at)).toThrow(/outcomes\.jsonl has no outcome at byte/);
    reader.close();
  });
});

describe('an outcome that is taken over', () => {
  it('says where it comes from, and has nothing that was billed', () => {
    expect(takenOver({ ...completed, origin: { carried_from: 'before' } }, { copied_from: 3 })).toEqual({
      ...completed,
      completion: { ...completed.completion, usage: null },
      attempts: 0,
      latency_ms: null,
      origin: { copied_from: 3 },
    });
  });

  it("is in the state directory and is no other run's, whatever an edited summary or manifest calls its run", () => {
    const names = ['../../out/reviews', '/etc/hosts', '..', 'job.answered'];
    expect(names.map((run) => dirname(outcomesPath('state', run)))).toEqual(names.map(() => 'state/reuse'));
    expect(outcomesPath('state', 'job.answered')).not.toMatch(/\.answered\.jsonl$/);
    expect(outcomesPath('state', '20261126-133214-97bef3')).toBe('state/reuse/20261126-133214-97bef3.jsonl');
  });
});
