import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';

const ROWS = 600;
/** Calls after which the disk is filled. */
const FILLED_AT = 200;
const CONCURRENCY = 8;
/** In KiB: room for what a run keeps free and for its answers. */
const ENOUGH = 64 * 1_024;

describeWithSmallDisk('a state directory on a disk of its own', () => {
  let work: Workplace;
  let service: ScriptedService;
  let disk: SmallDisk;
  let onCall: (calls: number) => void | Promise<void> = () => {};
  beforeEach(async () => {
    onCall = () => {};
    work = new Workplace();
    disk = mountSmallDisk(ENOUGH);
    service = await startScriptedService(async () => {
      await onCall(service.requests.length);
      return {};
    });
  });
  afterEach(async () => {
    await service.close();
    disk.remove();
    work.remove();
  });

  const env = () => ({
    PROMPTMILL_BASE_URL: service.url,
    PROMPTMILL_STATE_DIR: join(disk.path, 'state'),
    PROMPTMILL_LOG_LEVEL: 'silent',
  });
  const job = (rows: number): string =>
    work.job({
      input: { path: work.rows(rows) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: 10 },
    });

  it('fault 39: is full or read-only at the start, and nothing is sent', async () => {
    const path = job(3);
    disk.fill();
    const full = await work.call(['run', path], env());
    expect(full.code, full.stderr).toBe(2);
    expect(full.stderr).toMatch(/cannot keep the queue in .*state.*: ENOSPC|MiB are free there/);
    expect(full.stderr).toContain('PROMPTMILL_STATE_DIR');

    disk.free();
    disk.fill((8 * 1_024) / 4);
    const narrow = await work.call(['run', path], env());
    expect(narrow.code, narrow.stderr).toBe(2);
    expect(narrow.stderr).toMatch(/: \d+ MiB are free there, and 16 MiB are needed\nFree some space/);

    disk.free();
    disk.setReadOnly(true);
    const readOnly = await work.call(['run', path], env());
    expect(readOnly.code, readOnly.stderr).toBe(2);
    expect(readOnly.stderr).toMatch(/cannot write in the state directory .*\nMake it writable/);
    expect(service.requests.length).toBe(0);
  });

  it('fault 39: runs out of room in the middle; what is paid for is kept, and the same command completes it', async () => {
    const path = job(ROWS);
    // From then on calls are answered when the run says that it stops: it looks at the disk ten times a second.
    let says: Promise<void> | null = null;
    onCall = async (calls) => {
      // 8 MiB are left: too little to go on, and enough for what is in flight.
      if (calls === FILLED_AT) disk.fill((8 * 1_024) / 4);
      if (calls >= FILLED_AT) await says;
    };
    const running = work.start(['run', path], env());
    says = new Promise((resolve) => {
      running.process.stderr?.on('data', (text: string) => {
        if (/^stopping\b/m.test(text)) resolve();
      });
      void running.ended.then(() => resolve());
    });
    const stopped = await running.ended;
    expect(stopped.code, stopped.stderr).toBe(3);
    const said = stopped.stderr.replaceAll(/\s+/g, ' ');
    expect(said).toMatch(
      /state_dir_full: only \d+ MiB are free for the queue in .*\. Free some space and run/,
    );
    expect(service.requests.length).toBeLessThan(ROWS);

    disk.free();
    const finished = await work.call(['run', path], env());
    expect(finished.code, finished.stderr).toBe(0);
    const ids = Array.from({ length: ROWS }, (_, i) => String(i + 1));
    expect(work.records('out.csv').map((record) => record['id'])).toEqual(ids);
    expect(ids.filter((id) => service.calls(`row ${id}`) !== 1)).toEqual([]);
    expect(work.json('out.summary.json')['calls']).toMatchObject({ sent: ROWS, repeated: 0 });
  });

  it('fault 39: is full from one moment to the next; the run ends, and few calls are repeated', async () => {
    const path = job(ROWS);
    onCall = (calls) => {
      if (calls === FILLED_AT) disk.fill();
    };
    const stopped = await work.call(['run', path], env());
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('state_dir_full');
    expect(stopped.stderr).not.toContain('defect');
    const called = service.requests.length;
    expect(called).toBeLessThan(ROWS);

    disk.free();
    const finished = await work.call(['run', path], env());
    expect(finished.code, finished.stderr).toBe(0);
    expect(work.records('out.csv').length).toBe(ROWS);
    // What was called since then, and what was in flight or on its way into the ledger, could be written nowhere.
    const unwritten = called - FILLED_AT + 3 * CONCURRENCY;
    expect(service.requests.length).toBeLessThanOrEqual(ROWS + unwritten);
  });
});
