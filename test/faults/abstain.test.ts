import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Halt } from '../../src/core/halt.js';
import type { Outcome } from '../../src/core/model.js';
import type { Committer } from '../../src/resume/committer.js';
import { takeOutput } from '../../src/resume/output-target.js';
import { abstainStep } from '../../src/run/abstain.js';
import type { Finishing } from '../../src/run/step.js';
import { completed } from '../output/records.js';
import {
  commitTo,
  finish,
  finishingOf,
  openCommitter,
  type Rows,
  rowsOf,
  settingsFor,
  summaryOf,
} from '../resume/run-files.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';

const ANSWER = { labels: ['yes', 'no'], confidence: 'logprobs', gold: 'note', abstain: { accuracy: 0.95 } };

/** Every tenth row is one of which the model is not sure, and says what is not right. */
const isUnsure = (number: number): boolean => number % 10 === 0;

const logprobsOf = (number: number) => ({
  tokens: [' yes'],
  token_logprobs: [null],
  top_logprobs: [{ ' yes': Math.log(isUnsure(number) ? 0.6 : 0.9) }],
});

describeWithSmallDisk('a disk that fills up while labels are left out', () => {
  const ROWS = 500;
  let work: Workplace;
  let service: ScriptedService;
  let disk: SmallDisk;
  beforeEach(async () => {
    work = new Workplace();
    const lines = Array.from({ length: ROWS }, (_, i) => `${i + 1},${isUnsure(i + 1) ? 'no' : 'yes'}\n`);
    work.write('in.csv', `id,note\n${lines.join('')}`);
    service = await startScriptedService(({ prompt }) => {
      const body = completionBody({ text: ' yes' });
      const logprobs = logprobsOf(Number(prompt.split(' ')[1]));
      return { json: { ...body, choices: body.choices.map((choice) => ({ ...choice, logprobs })) } };
    });
    // The records take 80 KiB, and so there is room for them once.
    disk = mountSmallDisk(144);
    symlinkSync(disk.path, work.path('disk'));
  });
  afterEach(async () => {
    await service.close();
    disk.remove();
    work.remove();
  });

  it('fault 49: stops the run with every row written; once there is space the same command does only that', async () => {
    const env = { PROMPTMILL_BASE_URL: service.url };
    const job = work.job({ input: { path: 'in.csv' }, output: { path: 'disk/out.csv' }, answer: ANSWER });
    const stopped = await work.call(['run', job], env);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr.replaceAll(/\s+/g, ' ')).toContain(
      'cannot write disk/out.csv.part.tmp: no space left on device (ENOSPC). Free some space',
    );
    expect(readdirSync(disk.path).sort()).toEqual(['out.csv.part', 'out.csv.run.json']);
    expect(work.json('disk/out.csv.run.json')).toMatchObject({ rows: ROWS });

    disk.grow(1_024);
    const finished = await work.call(['run', job], env);
    expect(finished.code, finished.stderr).toBe(0);
    expect(service.calls()).toBe(ROWS);
    expect(work.records('disk/out.csv').map(({ id, answer, abstained }) => [id, answer, abstained])).toEqual(
      Array.from({ length: ROWS }, (_, i) =>
        isUnsure(i + 1) ? [String(i + 1), '', 'true'] : [String(i + 1), 'yes', 'false'],
      ),
    );
    expect(work.json('disk/out.summary.json')).toMatchObject({
      answers_abstained: 50,
      calls: { sent: ROWS },
    });
    expect(work.records('disk/out.review.csv')).toHaveLength(50);
    expect(readdirSync(disk.path).sort()).toEqual(['out.csv', 'out.review.csv', 'out.summary.json']);
  });
});

describe('an output of which labels are left out', () => {
  const COUNT = 40;
  let work: Workplace;
  let rows: Rows;
  const settings = () => settingsFor(work.path('out.csv'), { answer: ANSWER });
  beforeEach(async () => {
    work = new Workplace();
    const outcomes = Array.from({ length: COUNT }, (_, i) => {
      const completion = { ...completed.completion, text: ' yes', logprobs: logprobsOf(i + 1) };
      const outcome: Outcome = { ...completed, completion };
      return { note: isUnsure(i + 1) ? 'no' : 'yes', outcome };
    });
    rows = await rowsOf(settings(), outcomes);
  });
  afterEach(() => work.remove());

  const abstained = async (committer: Committer): Promise<Finishing> => {
    const finishing = finishingOf(committer, settings(), rows.format);
    await abstainStep.run(finishing);
    return finishing;
  };

  const complete = async (): Promise<void> => {
    const { committer } = await openCommitter(settings(), rows);
    await commitTo(committer, rows, COUNT);
    const { whole } = await abstained(committer);
    await finish(committer, summaryOf(committer, 'out.csv'), { whole });
    expect(work.records('out.csv').filter(({ abstained }) => abstained === 'true')).toHaveLength(4);
    expect(readdirSync(work.folder).sort()).toEqual(['out.csv', 'out.summary.json']);
  };

  it.each([
    ['deleted', () => rmSync(work.path('out.csv.part.tmp'))],
    [
      'replaced',
      () => {
        rmSync(work.path('out.csv.part.tmp'));
        writeFileSync(work.path('out.csv.part.tmp'), 'mine');
      },
    ],
  ])(
    'fault 63: gets no name when the new file is %s, and the same command does it again',
    async (_, harm) => {
      const { committer } = await openCommitter(settings(), rows);
      await commitTo(committer, rows, COUNT);
      const { whole } = await abstained(committer);
      harm();
      await expect(finish(committer, summaryOf(committer, 'out.csv'), { whole })).rejects.toMatchObject({
        exit: 3,
        code: 'part_lost',
      });
      expect(existsSync(work.path('out.csv'))).toBe(false);
      await complete();
    },
  );

  it('fault 60: gets no name from a process that has lost its lock to another', async () => {
    const context = { say: () => {}, halt: new Halt() };
    const place = await takeOutput(settings(), new Date(), context);
    if (place === null) throw new Error('the output is a file');
    const { committer } = await openCommitter(settings(), rows, COUNT, place);
    await commitTo(committer, rows, COUNT);
    const { whole } = await abstained(committer);
    const before = readFileSync(work.path('out.csv.run.json'), 'utf8');
    rmSync(work.path('.out.lock'), { recursive: true });
    const lost = { exit: 3, code: 'lock_lost' };
    await expect(finish(committer, summaryOf(committer, 'out.csv'), { whole })).rejects.toMatchObject(lost);
    expect(existsSync(work.path('out.csv'))).toBe(false);
    expect(readFileSync(work.path('out.csv.run.json'), 'utf8')).toBe(before);
    place.lock?.release();
    await complete();
  });
});
