import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { startProxy, type TestProxy } from '../support/proxy.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

describe('a run behind a proxy', () => {
  let work: Workplace;
  let service: ScriptedService;
  let proxy: TestProxy;
  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService();
    proxy = await startProxy({ user: 'me:secret' });
  });
  afterEach(async () => {
    await Promise.all([service.close(), proxy.close()]);
    work.remove();
  });

  it('sends its calls through it and says so; a rehearsal calls its own emulator', async () => {
    const job = work.job({ input: { path: work.rows(5) }, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_BASE_URL: service.url, HTTP_PROXY: `http://me:secret@${proxy.host}` };
    const through = await work.call(['run', job], env);
    expect(through.code, through.stderr).toBe(0);
    expect(through.stderr).toContain(`calls go through the proxy http://${proxy.host}\n`);
    expect(through.stderr).not.toContain('secret');
    expect(proxy.asked.length).toBe(5);
    expect(service.requests.length).toBe(5);

    const rehearsed = await work.call(['run', job, '--emulate'], env);
    expect(rehearsed.code, rehearsed.stderr).toBe(0);
    expect(rehearsed.stderr).not.toContain('proxy');
    expect(proxy.asked.length).toBe(5);
  });

  it('does not start with a variable that names none, and stops when the proxy wants a password', async () => {
    const job = work.job({ input: { path: work.rows(5) }, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_BASE_URL: service.url };
    const bad = await work.call(['run', job], { ...env, http_proxy: 'ftp://me:secret@x' });
    expect(bad.code, bad.stderr).toBe(2);
    expect(bad.stderr).toContain('http_proxy names a proxy of the kind ftp');
    expect(bad.stderr).not.toContain('secret');

    const stopped = await work.call(['run', job], { ...env, HTTP_PROXY: proxy.host });
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('proxy_unauthorized');
    const direct = await work.call(['run', job], { ...env, HTTP_PROXY: proxy.host, NO_PROXY: '127.0.0.0/8' });
    expect(direct.code, direct.stderr).toBe(0);
    expect(direct.stderr).not.toContain('calls go through');
  });
});
