import { afterEach, describe, expect, it, vi } from 'vitest';
import { UsageError } from '../../../src/core/errors.js';
import { type LoginAttempt, LoginLimiter } from '../../../src/ops/web/login.js';
import { AUTHORIZATION, ask, basic, type Dashboard, LOGIN, startDashboard } from './dashboard.js';

const open: Dashboard[] = [];
async function dashboard(options: Parameters<typeof startDashboard>[0] = {}): Promise<Dashboard> {
  const started = await startDashboard(options);
  open.push(started);
  return started;
}
afterEach(async () => {
  vi.useRealTimers();
  for (const one of open.splice(0)) await one.close();
});

/** Every kind of page that there is. */
const PAGES = ['/', '/assets/dashboard.js', '/api/state', '/runs/x', '/api/runs/x', '/runs/x/summary.json'];
const OTHERS = ['/metrics', '/no-such-page', '/healthz/..', '/%68ealthz/x', '//healthz'];

describe('the login of the dashboard', () => {
  it.each(['127.0.0.1', '::1', '0.0.0.0'])(
    'fault 59: without a password nothing listens on %s',
    async (host) => {
      for (const password of [undefined, '', 'seven77']) {
        const started = startDashboard({ login: { user: 'promptmill', password }, host });
        await expect(started).rejects.toThrow(UsageError);
        await expect(started).rejects.toMatchObject({
          exit: 2,
          message: expect.stringContaining('PROMPTMILL_DASHBOARD_PASSWORD'),
        });
        await expect(started).rejects.not.toMatchObject({ message: expect.stringContaining('seven77') });
      }
    },
  );

  it('fault 59: no page is shown without the login, also none that does not exist', async () => {
    const { url } = await dashboard();
    for (const path of [...PAGES, ...OTHERS]) {
      const answer = await ask('GET', url + path);
      expect(answer.status, path).toBe(401);
      expect(answer.headers['www-authenticate'], path).toContain('Basic realm="Promptmill"');
      expect(answer.body, path).not.toContain('html');
    }
  });

  it('shows all of them with it', async () => {
    const { get } = await dashboard();
    for (const path of ['/', '/assets/dashboard.js', '/api/state', '/metrics']) {
      expect((await get(path)).status, path).toBe(200);
    }
    expect((await get('/no-such-page')).status).toBe(404);
  });

  it('takes neither another password, nor another user, nor a part of either', async () => {
    const { get } = await dashboard();
    const wrong = [
      basic(LOGIN.user, 'wrong'),
      basic(LOGIN.user, `${LOGIN.password} `),
      basic('admin', LOGIN.password),
      basic(`${LOGIN.user}:${LOGIN.password}`, ''),
      'Basic',
      AUTHORIZATION.replace('Basic', 'Bearer'),
    ];
    const answers = await Promise.all(wrong.map((authorization) => get('/', { authorization })));
    expect(answers.map(({ status }) => status)).toEqual(wrong.map(() => 401));
    for (const { body } of answers) expect(body).not.toContain(LOGIN.password);
  });
});

describe('a guesser', () => {
  const MINUTE = 60_000;
  /** A login limiter with a clock of the test's own. */
  function loginLimiter() {
    let now = 0;
    const limiter = new LoginLimiter(LOGIN, () => now);
    const judge = (password: string, from: Partial<LoginAttempt> = {}) =>
      limiter.judge({
        user: LOGIN.user,
        password,
        address: '10.0.0.1',
        local: false,
        device: undefined,
        ...from,
      });
    const guess = (from: Partial<LoginAttempt> = {}) => judge('wrong', from).kind;
    return { judge, guess, wait: (ms: number) => (now += ms) };
  }

  it('fault 86: has ten guesses and ten a minute, and learns nothing from what is not looked at', () => {
    const { judge, guess, wait } = loginLimiter();
    expect(Array.from({ length: 10 }, () => guess())).toEqual(Array(10).fill('wrong'));
    expect(judge('wrong')).toEqual({ kind: 'too many', waitMs: 6_000 });
    expect(judge(LOGIN.password)).toEqual({ kind: 'too many', waitMs: 6_000 });
    wait(6_000);
    expect(judge(LOGIN.password).kind).toBe('right');
  });

  it('fault 86: gets no more than 60 a minute from a thousand addresses', () => {
    const { guess, wait } = loginLimiter();
    let looked = 0;
    for (let second = 0; second < 600; second++, wait(1_000))
      for (let i = 0; i < 50; i++) if (guess({ address: `10.1.${second % 20}.${i}` }) === 'wrong') looked++;
    expect(looked).toBeLessThanOrEqual(60 * 11);
    expect(looked).toBeGreaterThan(60 * 9);
  });

  it('fault 86: does not keep out who has logged in before: by a cookie, by another address, or on this machine', () => {
    const { judge, guess, wait } = loginLimiter();
    const first = judge(LOGIN.password);
    const device = first.kind === 'right' ? (first.device ?? undefined) : undefined;
    judge(LOGIN.password, { address: '10.0.0.9' });
    wait(MINUTE);
    for (let i = 0; i < 100; i++) {
      guess();
      guess({ address: `10.2.0.${i}` });
    }
    expect(judge(LOGIN.password).kind).toBe('too many');
    expect(judge(LOGIN.password, { address: '10.3.0.1' }).kind).toBe('too many');
    expect(judge(LOGIN.password, { device })).toEqual({ kind: 'right', device: null });
    expect(judge(LOGIN.password, { address: '10.0.0.9' }).kind).toBe('right');
    expect(judge(LOGIN.password, { address: '127.0.0.1', local: true }).kind).toBe('right');
  });

  it('fault 86: cannot make a cookie, and one alone opens nothing', () => {
    const { judge, guess } = loginLimiter();
    const first = judge(LOGIN.password);
    const device = first.kind === 'right' ? (first.device ?? '') : '';
    const other = loginLimiter().judge(LOGIN.password);
    const forged = [device.replace(/^./, (c) => (c === '0' ? '1' : '0')), 'x', '', '.', `${device}0`];
    if (other.kind === 'right' && other.device !== null) forged.push(other.device);
    expect(Array.from({ length: 10 }, () => guess({ device }))).toEqual(Array(10).fill('wrong'));
    expect(guess({ device })).toBe('too many');
    expect(Array.from({ length: 10 }, (_, i) => guess({ device: forged[i % forged.length] ?? '' }))).toEqual(
      Array(10).fill('wrong'),
    );
    for (const made of forged) expect(judge(LOGIN.password, { device: made }).kind).toBe('too many');
  });

  it('fault 86: behind a proxy, shares no limit with the owner, whose address or cookie tells them apart', async () => {
    // Six seconds give another guess, and a busy machine takes as long for ten of them: the clock stands still.
    vi.useFakeTimers({ toFake: ['performance'] });
    const { get } = await dashboard();
    const known = await get('/');
    const cookie = String(known.headers['set-cookie']).replace(/;.*/, '');
    expect(cookie).toMatch(/^promptmill_device=[\da-f]{32}\.[\da-f]{64}$/);
    expect((await get('/', { cookie })).headers['set-cookie']).toBeUndefined();
    const wrong = basic(LOGIN.user, 'wrong');
    for (let i = 0; i < 10; i++) expect((await get('/', { authorization: wrong })).status).toBe(401);
    const refused = await get('/');
    expect(refused.status).toBe(429);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect((await get('/', { cookie })).status).toBe(200);
    expect((await get('/', { 'x-forwarded-for': '203.0.113.7' })).status).toBe(200);
  });
});

describe('other sites', () => {
  it('fault 59: cannot make a name of theirs lead to a dashboard on loopback', async () => {
    const { get, url } = await dashboard();
    for (const host of ['evil.example', `evil.example:${new URL(url).port}`, '127.0.0.1.evil.example']) {
      expect((await get('/', { host })).status, host).toBe(421);
    }
    // A tunnel has another port.
    for (const host of ['localhost:8080', '127.0.0.1', '[::1]:7300', 'LOCALHOST']) {
      expect((await get('/', { host })).status, host).toBe(200);
    }
  });

  it('cannot change anything with the browser of somebody who is logged in: nothing can be changed', async () => {
    const { send } = await dashboard();
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      for (const path of ['/', '/metrics', '/api/state']) {
        expect((await send(method, path)).status, `${method} ${path}`).toBe(405);
      }
    }
  });

  it('cannot frame a page, and no page runs anything that is not its own', async () => {
    const { get } = await dashboard();
    for (const path of ['/', '/api/state', '/no-such-page']) {
      const { headers } = await get(path);
      expect(headers['content-security-policy'], path).toMatch(/^default-src 'none';script-src 'self';/);
      expect(headers['content-security-policy'], path).toContain("frame-ancestors 'none'");
      expect(headers['content-security-policy'], path).not.toContain('unsafe');
      expect(headers, path).toMatchObject({
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
        'cache-control': path === '/' ? 'private, no-cache' : 'no-store',
      });
      // Neither may send a browser to HTTPS, where nothing listens.
      expect(headers['content-security-policy'], path).not.toContain('upgrade-insecure-requests');
      expect(headers['strict-transport-security'], path).toBeUndefined();
      expect(headers['access-control-allow-origin'], path).toBeUndefined();
    }
  });
});

describe('the health checks', () => {
  it('need no login, and follow the store', async () => {
    const { url, beats } = await dashboard();
    expect(await ask('GET', `${url}/healthz`)).toMatchObject({ status: 200, body: '{"status":"ok"}' });
    expect(await ask('GET', `${url}/readyz`)).toMatchObject({ status: 200, body: '{"status":"ready"}' });
    expect(beats.away).toBe(false);
  });

  it('tell of a store that is away, and not its address', async () => {
    const { beats } = await dashboard();
    beats.away = true;
    const { url } = await dashboard({ beats });
    expect((await ask('GET', `${url}/healthz`)).status).toBe(200);
    const { status, body } = await ask('GET', `${url}/readyz`);
    expect({ status, ...JSON.parse(body) }).toEqual({
      status: 'not ready',
      reason: 'the store has not answered yet',
    });
    expect(status).toBe(503);
  });
});

it('an address that is taken is told with the option', async () => {
  const { url } = await dashboard();
  await expect(startDashboard({ port: Number(new URL(url).port) })).rejects.toMatchObject({
    exit: 2,
    message: expect.stringMatching(
      /^the dashboard cannot listen on --host 127\.0\.0\.1 --port \d+: .*EADDRINUSE/,
    ),
  });
});
