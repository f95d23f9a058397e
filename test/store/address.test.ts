import { expect, test } from 'vitest';
import { withoutPasswordInPublic } from '../../src/store/address.js';

test.each([
  'redis://203.0.113.7:6379',
  'redis://172.32.0.1',
  'rediss://cache.example.com',
  'redis://[2001:db8::1]',
  'redis://me@db.example.com/0',
])('fault 59: a store that the internet reaches without a password is told of: %s', (address) => {
  expect(withoutPasswordInPublic(new URL(address))).toContain('has no password');
});

test.each([
  'redis://:secret@203.0.113.7',
  'redis://localhost:6379',
  'redis://redis:6379',
  'redis://127.0.0.1',
  'redis://10.1.2.3',
  'redis://172.16.0.1',
  'redis://192.168.1.5',
  'redis://[::1]',
  'redis://[fd00::1]',
  'redis://me@db.internal/0',
])('one with a password, or in a private network, is not: %s', (address) => {
  expect(withoutPasswordInPublic(new URL(address))).toBeNull();
});
