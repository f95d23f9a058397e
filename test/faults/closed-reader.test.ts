import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

describe('fault 51: a reader that has gone', () => {
  const state = new Workplace();
  let work: Workplace;
  let service: ScriptedService;
  afterAll(() => state.remove());
  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService();
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const start = (...args: string[]) => {
    const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_STATE_DIR: state.folder };
    return work.start(['run', job, ...args], env);
  };

  it('before the first record ends the run as by a signal', async () => {
    const running = start('--output', '-', '--quiet');
    running.process.stdout?.destroy();
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([141, '']);
  });

  it('of the summary in JSON is no crash, and the output is finished', async () => {
    const running = start('--json', '--quiet');
    running.process.stdout?.destroy();
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([141, '']);
    expect(work.records('out.csv').length).toBe(3);
  });

  it('fault 114: and one that only rests for longer than give_up_after is waited for', async () => {
    const job = work.job({
      input: { path: work.rows(3_000) },
      limits: { give_up_after: '1s' },
    });
    const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_STATE_DIR: state.folder };
    const running = work.start(['run', job, '--output', '-'], env);
    const { stdout, stderr } = running.process;
    stdout?.pause();
    await new Promise<void>((resolve) => {
      let said = '';
      stderr?.on('data', (text: string) => {
        said += text;
        if (said.includes('for whoever reads the rows to take the next')) resolve();
      });
      stderr?.on('close', resolve);
    });
    stdout?.resume();
    const ended = await running.ended;
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stdout.trimEnd().split('\n').length).toBe(1 + 3_000);
    expect(service.requests.length).toBe(3_000);
  });

  it('of the messages does not end the run', async () => {
    const running = start('--log-level', 'debug');
    running.process.stderr?.destroy();
    const { code } = await running.ended;
    expect(code).toBe(0);
    expect(work.records('out.csv').length).toBe(3);
  });
});
