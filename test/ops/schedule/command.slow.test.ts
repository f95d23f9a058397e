import { rmSync } from 'node:fs';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { Workplace } from '../../support/promptmill.js';
import { Serve } from '../../support/serve.js';

const NIGHT = { cron: '0 2 * * *', timezone: 'Europe/Berlin' };

describe('promptmill schedule', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  const job = (name: string, schedule: object | undefined): string =>
    work.job({ input: { path: 'rows.csv' }, ...(schedule && { schedule }) }, `jobs/${name}.yaml`);

  it('syncs, lists and removes', async () => {
    job('night', NIGHT);
    job('by-hand', undefined);
    const synced = await work.call(['schedule', 'sync']);
    expect(synced.code, synced.stderr).toBe(0);
    expect(synced.stderr).toMatch(
      /^scheduled: night \(0 2 \* \* \*, Europe\/Berlin\), next \w{3} \d{4}-\d\d-\d\d 02:00 /,
    );
    expect(synced.stdout).toBe('');

    const listed = await work.call(['schedule', 'list', '--json']);
    const [entry, ...others] = JSON.parse(listed.stdout);
    expect(others).toEqual([]);
    expect(entry).toMatchObject({ job: 'night', ...NIGHT, running_since: null, last: null });
    expect(entry.path).toMatch(/\/jobs\/night\.yaml$/);
    expect(entry.next).toHaveLength(5);

    expect(await work.call(['schedule', 'remove', 'night'])).toMatchObject({
      code: 0,
      stderr: 'removed: night\n',
    });
  });

  it('says who has the embedded schedule while serve is at work, and serve follows the job files by itself', async () => {
    job('night', NIGHT);
    const env = { PROMPTMILL_DASHBOARD_PASSWORD: 'for-tests-only' };
    const serve = new Serve(work.start(['serve', '--port', '0'], env));
    try {
      await serve.logs(/^PROMPTMILL_BASE_URL not set: no job can start/);
      await serve.logs(/^serving the schedule/);
      const refused = await work.call(['schedule', 'sync']);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain('most likely promptmill serve');
      expect(refused.stderr).toContain('SIGHUP');
      const [{ url } = { url: '' }] = serve.logged(/^the dashboard listens/);
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
      expect((await fetch(`${url}/api/state`)).status).toBe(401);
      const second = await work.call(['serve'], env);
      expect(second.code).toBe(2);
      expect(second.stderr).toContain(`is held by process ${serve.running.process.pid}`);

      job('noon', { cron: '0 12 * * *' });
      rmSync(work.path('jobs/night.yaml'));
      serve.running.process.kill('SIGHUP');
      await serve.logs(/^not scheduled any more/);
      // What the list is read from is written after the log says so.
      const stdout = await vi.waitFor(
        async () => {
          const listed = await work.call(['schedule', 'list']);
          expect(listed.stdout).toMatch(/^noon {2}0 12 \* \* \* {2}/);
          return listed.stdout;
        },
        { timeout: 60_000 },
      );
      expect(stdout.match(/ 12:00 /g)).toHaveLength(5);
      expect(stdout).toContain('last  no run yet');
      serve.running.process.kill('SIGTERM');
      expect(await serve.running.ended).toMatchObject({ code: 0 });
    } finally {
      serve.running.process.kill('SIGKILL');
    }
  });

  it('fault 47: the embedded schedule is there for other processes after serve was killed', async () => {
    job('night', NIGHT);
    job('noon', { cron: '0 12 * * *', timezone: 'UTC' });
    const jobs = async (): Promise<string[]> => {
      const { stdout } = await work.call(['schedule', 'list', '--json']);
      return JSON.parse(stdout).map((entry: { job: string }) => entry.job);
    };
    const serve = (): Serve => new Serve(work.start(['serve', '--no-dashboard']));
    for (let kills = 0; kills < 2; kills++) {
      const killed = serve();
      await killed.logs(/^serving the schedule/);
      expect(killed.logged(kills === 0 ? /^scheduled/ : /^still scheduled/).length).toBeGreaterThan(0);
      killed.running.process.kill('SIGKILL');
      await killed.running.ended;
      expect(await jobs()).toEqual(['night', 'noon']);
    }
    rmSync(work.path('jobs/noon.yaml'));
    expect((await work.call(['schedule', 'sync'])).stderr).toMatch(/^unchanged: night.*\nremoved: noon\n$/);
    expect(await jobs()).toEqual(['night']);
    expect((await work.call(['schedule', 'remove', 'night'])).code).toBe(0);
    expect(await jobs()).toEqual([]);
  });

  it('fault 39: serve ends when its embedded schedule is another process’s', async () => {
    job('night', NIGHT);
    const serve = new Serve(work.start(['serve', '--no-dashboard']));
    await serve.logs(/^serving the schedule/);
    rmSync(work.path('.promptmill/schedule/store/lock'), { recursive: true });
    job('noon', { cron: '0 12 * * *' });
    serve.running.process.kill('SIGHUP');
    const { code, stderr } = await serve.running.ended;
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('cannot serve any longer: lock_lost: another process uses the queue in');
  });

  it('fault 59: refuses to serve a dashboard without a password', async () => {
    const { code, stderr } = await work.call(['serve']);
    expect(code).toBe(2);
    expect(stderr).toContain('PROMPTMILL_DASHBOARD_PASSWORD is not set');
  });
});
