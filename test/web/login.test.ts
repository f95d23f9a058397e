import { afterEach, describe, expect, it } from 'vitest';
import { UsageError } from '../../src/errors.js';
import { Doorkeeper } from '../../src/web/login.js';
import { AUTHORIZATION, ask, basic, type Dashboard, LOGIN, startDashboard } from './dashboard.js';

const open: Dashboard[] = [];
async function dashboard(options: Parameters<typeof startDashboard>[0] = {}): Promise<Dashboard> {
  const started = await startDashboard(options);
  open.push(started);
  return started;
}
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

/** Every kind of page that there is. */
const PAGES = ['/', '/assets/dashboard.js', '/api/state', '/runs/x', '/api/runs/x', '/runs/x/summary.json'];
const OTHERS = ['/queues', '/metrics', '/no-such-page', '/healthz/..', '/%68ealthz/x', '//healthz'];

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
    for (const path of ['/', '/assets/dashboard.js', '/api/state', '/queues', '/metrics']) {
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

  it('fault 59: looks at few guesses of an address at a time, and at the right login again afterwards', async () => {
    const doorkeeper = new Doorkeeper(LOGIN);
    const judge = (password: string, address = '10.0.0.1') => doorkeeper.judge(LOGIN.user, password, address);
    // All at once: none is judged later than the first has been answered.
    const guesses = Array.from({ length: 30 }, (_, i) => judge(`guess ${i}`));
    const meanwhile = [judge(LOGIN.password), judge(LOGIN.password, '10.0.0.2')];
    const verdicts = await Promise.all(guesses);
    expect(verdicts.filter((verdict) => verdict === 'wrong')).toHaveLength(10);
    expect(verdicts.filter((verdict) => verdict === 'too many')).toHaveLength(20);
    // Whoever guesses learns nothing from what is refused without a look; others are not kept waiting.
    expect(await Promise.all(meanwhile)).toEqual(['too many', 'right']);
    expect(await judge(LOGIN.password)).toBe('right');
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
      for (const path of ['/', '/queues/api/queues/pause', '/api/state']) {
        expect((await send(method, path)).status, `${method} ${path}`).toBe(405);
      }
    }
  });

  it('cannot frame a page, and no page runs anything that is not its own', async () => {
    const { get } = await dashboard();
    for (const path of ['/', '/api/state', '/no-such-page']) {
      const { headers } = await get(path);
      expect(headers['content-security-policy'], path).toMatch(/^default-src 'none'; script-src 'self';/);
      expect(headers['content-security-policy'], path).toContain("frame-ancestors 'none'");
      expect(headers['content-security-policy'], path).not.toContain('unsafe');
      expect(headers, path).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(headers['access-control-allow-origin'], path).toBeUndefined();
    }
  });
});

describe('the health checks', () => {
  it('need no login, and follow the store', async () => {
    const { url, board } = await dashboard();
    expect(await ask('GET', `${url}/healthz`)).toMatchObject({ status: 200, body: '{"status":"ok"}' });
    expect(await ask('GET', `${url}/readyz`)).toMatchObject({ status: 200, body: '{"status":"ready"}' });
    expect(board.away).toBe(false);
  });

  it('tell of a store that is away, and not its address', async () => {
    const { board } = await dashboard();
    board.away = true;
    const { url } = await dashboard({ board });
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
