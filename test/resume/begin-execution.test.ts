import { existsSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { Halt } from '../../src/core/halt.js';
import { Committer } from '../../src/resume/committer.js';
import { RunLease } from '../../src/resume/lease.js';
import { findTarget } from '../../src/resume/output-target.js';
import { beginExecution, type Execution } from '../../src/resume/resume.js';
import { csv } from '../../src/source/csv.js';
import { completed } from '../output/records.js';
import { entry, record } from '../store/samples.js';
import { Workplace } from '../support/promptmill.js';
import { servedEndpoint } from '../support/served-endpoint.js';
import { commitTo, type Rows, rowsOf, settingsFor } from './run-files.js';

describe('going on with a run', () => {
  let work: Workplace;
  let rows: Rows;
  beforeEach(async () => {
    work = new Workplace();
    rows = await rowsOf(settings(), [
      { note: 'one', outcome: completed },
      { note: 'two', outcome: completed },
    ]);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    work.remove();
  });

  function settings(flags: RunFlags = {}, input: object = {}) {
    const job = { input: { path: 'in.csv', ...input }, parameters: { temperature: 0 } };
    return { ...settingsFor(work.path('out/out.csv'), job, flags), stateDir: work.path('state') };
  }

  /** What a run does between its start and its first call. */
  async function begin(
    given = settings(),
    halt = new Halt(),
    total = rows.records.length,
  ): Promise<Execution> {
    const context: Parameters<typeof beginExecution>[4] = {
      endpoints: [servedEndpoint()],
      ...{ halt, log: pino({ level: 'silent' }), stdout: process.stdout, say: () => {} },
    };
    const survey = {
      ...{ format: csv, columns: ['id', 'note'], rows: rows.records.length },
      ...{ badRows: 0, sha256: 'same', bytes: 1 },
      digests: { blockBytes: 1, bytes: Buffer.alloc(0) },
    };
    const input = { survey, total, sample: null };
    return await beginExecution(
      await findTarget(given, new Date()),
      input,
      rows.header,
      given,
      context,
      () => {},
    );
  }

  /** Every file beside the output, with its content. */
  const files = (): Record<string, string> => {
    const names = existsSync(work.path('out')) ? readdirSync(work.path('out')).sort() : [];
    return Object.fromEntries(names.map((name) => [name, readFileSync(work.path(`out/${name}`), 'utf8')]));
  };

  it('finishes what it writes when the run is halted meanwhile, and leaves no temporary file', async () => {
    const halt = new Halt();
    const { opened } = Committer.prototype;
    let isWritten = false;
    vi.spyOn(Committer.prototype, 'opened').mockImplementation(async function (this: Committer) {
      halt.request({ kind: 'signal', signal: 'SIGINT' });
      await opened.call(this);
      isWritten = true;
    });

    await expect(begin(settings(), halt)).rejects.toThrow();

    expect(isWritten).toBe(true);
    expect(Object.keys(files())).toEqual(['out.csv.part', 'out.csv.run.json']);
  });

  it('changes nothing when outcomes cannot be kept, neither for a new run nor for one to be given up', async () => {
    const first = await begin();
    await commitTo(first.committer, rows, 1);
    await first.committer.pause();
    await first.close();
    const before = files();
    expect(Object.keys(before)).toEqual(['out.csv.part', 'out.csv.run.json']);
    work.write('state/reuse', 'a file where the folder should be');
    const refused = { exit: 2, code: 'bad_state_dir' };

    await expect(begin(settings({ restart: true }, { dedupe: true }))).rejects.toMatchObject(refused);
    expect(files()).toEqual(before);
    // The ledger has the run still, which goes on.
    const again = await begin();
    expect(again.committer.manifest).toMatchObject({
      run: first.committer.manifest.run,
      execution: 2,
      rows: 1,
    });
    await again.close();

    rmSync(work.path('out'), { recursive: true });
    await expect(begin(settings({}, { dedupe: true }))).rejects.toMatchObject(refused);
    expect(files()).toEqual({});
  });

  /** An answer, and one of a row that is to be asked again. */
  const ANSWERS = [{}, { interim: 1 }];

  it.for(ANSWERS)(
    'fault 50: counts what a cut part file makes it call again, also when it is cut off before its first call: %j',
    async (answer) => {
      const first = await begin();
      await commitTo(first.committer, rows, 1);
      await first.committer.pause();
      // Of the row behind the commit the ledger has the answer.
      const { run } = first.committer.manifest;
      await record(first.store.ledger, [{ ...entry(run, 2, 2), ...answer }], new Map([[run, { sent: 2 }]]));
      await first.close();
      truncateSync(work.path('out/out.csv.part'), rows.header.length);

      const cutOff = vi.spyOn(RunLease.prototype, 'take').mockRejectedValue(new Error('cut off'));
      await expect(begin()).rejects.toThrow('cut off');
      cutOff.mockRestore();

      const again = await begin();
      expect(again.committer.manifest).toMatchObject({ rows: 0, calls: { sent: 2, repeated: 2 } });
      expect(again.committer.manifest.run).not.toBe(run);
      await again.close();
    },
  );

  it.for(ANSWERS)('fault 40: goes back behind no answer that is known: %j', async (answer) => {
    const first = await begin();
    const { run } = first.committer.manifest;
    await record(first.store.ledger, [{ ...entry(run, 2, 2), ...answer }]);
    await first.close();
    await expect(begin(settings(), new Halt(), 1)).rejects.toMatchObject({ code: 'limit_too_small' });
    await (await begin()).close();
  });

  it('fault 89: with hold, ends at no smaller limit when the store has forgotten which rows behind it were called', async () => {
    const given = settings();
    const holding = { ...given, limits: { ...given.limits, unknownOutcome: 'hold' as const } };
    const first = await begin(holding);
    await commitTo(first.committer, rows, 1);
    await first.committer.pause();
    await first.close();
    rmSync(work.path('state'), { recursive: true });
    // Row 2 may have been called.
    await expect(begin(holding, new Halt(), 1)).rejects.toMatchObject({ code: 'ledger_lost' });
  });

  it('leaves no outcomes of a run that could not begin', async () => {
    const open = vi.spyOn(Committer, 'open').mockRejectedValue(new Error('no space'));
    const reusing = settings({}, { dedupe: true });
    await expect(begin(reusing)).rejects.toThrow('no space');
    expect(readdirSync(work.path('state/reuse'))).toEqual([]);

    // Those of a run that goes on stay.
    open.mockRestore();
    const first = await begin(reusing);
    await first.close();
    const [kept] = readdirSync(work.path('state/reuse'));
    vi.spyOn(Committer, 'open').mockRejectedValue(new Error('no space'));
    await expect(begin(reusing)).rejects.toThrow('no space');
    expect(readdirSync(work.path('state/reuse'))).toEqual([kept]);
  });
});
