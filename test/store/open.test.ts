import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withoutPassword } from '../../src/store/address.js';
import { openStore } from '../../src/store/open.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const open = (target: string, warnings: string[] = []) =>
  openStore(target, { stateDir: '/dev/null/never', onWarning: (message) => warnings.push(message) });

describe('an address that is none', () => {
  test.each([
    '',
    'redis',
    'localhost:6379',
    'mysql://root:secret@db/x',
    'redis:/',
    'http://h',
    'redis://u:sec ret@',
  ])('%j is refused with the forms that there are', async (target) => {
    const refused = open(target);
    await expect(refused).rejects.toMatchObject({
      exit: 2,
      code: expect.stringMatching(/^(bad_queue|queue_)/),
    });
    await expect(refused).rejects.not.toThrow(/secret|sec ret/);
  });

  test.each([
    ['postgres://mill:secret@db:5432/mill', 'postgres://mill:***@db:5432/mill'],
    ['postgresql://mill@db/mill?password=secret', 'postgresql://mill@db/mill?password=***'],
  ])('%s is refused with the two stores that there are, and without its password', async (target, shown) => {
    await expect(open(target)).rejects.toMatchObject({
      exit: 2,
      code: 'bad_queue',
      message: `the queue "${shown}" is of an unknown kind`,
      hint: expect.stringMatching(/^Use embedded, or a Redis or Valkey: redis:\/\/HOST:PORT/),
    });
  });

  test('fault 87: a % that encodes nothing, or the address of a sentinel, is refused in words', async () => {
    await expect(open('redis://u:se%cret@h')).rejects.toThrow('"redis://u:***@h"');
    await expect(open('redis://u@h/%zz')).rejects.toMatchObject({ code: 'bad_queue' });
    await expect(open('redis+sentinel://:secret@h:26379/mymaster')).rejects.toMatchObject({
      code: 'bad_queue',
      message: expect.not.stringContaining('secret'),
      hint: expect.stringContaining('Sentinel'),
    });
  });

  test.each([
    ['redis://u:p@ss/w@host:1/2', 'redis://u:***@host:1/2'],
    ['redis://:pass@host', 'redis://:***@host'],
    ['redis://host:6379/0', 'redis://host:6379/0'],
    ['redis://[::1]:6379/0', 'redis://[::1]:6379/0'],
    ['redis://u:pass@[::1]:6379/0', 'redis://u:***@[::1]:6379/0'],
    ['localhost:6379', 'localhost:6379'],
    ['postgres://mill@db/mill', 'postgres://mill@db/mill'],
    ['postgres://u@h/db?password=pass&x=1', 'postgres://u@h/db?password=***&x=1'],
    ['postgres://h/db?user=u&sslpassword=pass', 'postgres://h/db?user=u&sslpassword=***'],
    ['redis://h?password=a@pass', 'redis://h?password=***'],
    ['u:pass@host', 'u:***@host'],
    // Typing errors.
    ['rediss//user:pass@host', 'rediss//user:***@host'],
    ['redis:/user:pass@host', 'redis:/user:***@host'],
    ['redis:///user:pass@host', 'redis:///user:***@host'],
    ['redis:pass@host', 'redis:***@host'],
    ['redis;//user:pass@host', 'redis;//user:***@host'],
    ['redis:\\\\user:pass@host', 'redis:\\\\user:***@host'],
    ['//user:pass@host', '//user:***@host'],
    ['redis://user:pass', 'redis://user:***'],
    ['redis://:pass', 'redis://:***'],
    ['redis://user:pa/ss#x?y@host', 'redis://user:***@host'],
    ['redis://u:p%40ss@host', 'redis://u:***@host'],
    ['redis://u:pass@h1:1,u:pass2@h2:2', 'redis://u:***@h2:2'],
    [
      'redis+sentinel://u:pass@h:26379/mymaster?sentinelPassword=pass',
      'redis+sentinel://u:***@h:26379/mymaster?sentinelPassword=***',
    ],
    ["host=h user=u password='my pass' dbname=d", 'host=h user=u password=*** dbname=d'],
  ])('fault 87: the password of %j is hidden', (address, shown) => {
    expect(withoutPassword(address)).toBe(shown);
    expect(shown).not.toContain('pass2');
  });
});

describe('a server that is not there', () => {
  test('is a usage error that names the address and hides the password', async () => {
    const refused = open('redis://user:secret@127.0.0.1:1/0');
    await expect(refused).rejects.toMatchObject({
      exit: 2,
      code: 'queue_unreachable',
      message: expect.stringContaining('//user:***@127.0.0.1:1/'),
      hint: expect.stringContaining('embedded'),
    });
    await expect(refused).rejects.not.toThrow('secret');
  });

  test('that takes the connection and says nothing is given up', async () => {
    const mute = createServer().listen(0, '127.0.0.1');
    await once(mute, 'listening');
    const address = mute.address();
    const port = typeof address === 'object' ? address?.port : 0;
    await expect(open(`redis://127.0.0.1:${port}/0`)).rejects.toMatchObject({
      code: 'queue_unreachable',
    });
    mute.close();
  });
});

if (haveRedis()) {
  describe('a Redis', () => {
    let server: Server;
    beforeAll(async () => {
      server = await startRedis({ args: ['--requirepass', 'right'] });
    });
    afterAll(() => server.stop());
    const withPassword = (password: string) => server.url.replace('//', `//:${password}@`);

    test.each(['wrong', ''])('that refuses the password %j is a usage error', async (password) => {
      const refused = open(password === '' ? server.url : withPassword(password));
      await expect(refused).rejects.toMatchObject({ exit: 2, code: 'queue_refused' });
      await expect(refused).rejects.not.toThrow('wrong@');
    });

    test('that keeps everything gives no warning', async () => {
      const warnings: string[] = [];
      await (await open(withPassword('right'), warnings)).close();
      expect(warnings).toEqual([]);
    });

    test('that may forget what was paid for is warned of', async () => {
      const forgetful = await startRedis({ appendonly: false, args: ['--maxmemory-policy', 'allkeys-lru'] });
      const warnings: string[] = [];
      await (await open(forgetful.url, warnings)).close();
      expect(warnings).toEqual([
        expect.stringContaining('allkeys-lru'),
        expect.stringContaining('append-only'),
      ]);
      await forgetful.stop();
    });
  });
} else describeMissing('a Redis', 'redis-server or valkey-server');
