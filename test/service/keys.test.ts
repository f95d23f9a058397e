import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import { KeyRing } from '../../src/service/keys.js';

describe('the key ring', () => {
  it('moves every caller to the second key once, and then has none left', () => {
    const ring = new KeyRing(['one', 'two']);
    expect(ring.current()).toBe('one');
    ring.refuse('one');
    ring.refuse('one'); // another call that was in flight with the first key
    expect(ring.current()).toBe('two');
    ring.refuse('two');
    expect(ring.current()).toBeNull();
  });

  it('fault 80: keeps a key that was taken, until it is refused ten times in a row', () => {
    const ring = new KeyRing(['one', 'two']);
    ring.took('one');
    for (let i = 0; i < 9; i++) expect(ring.refuse('one')).toBe(false);
    expect([ring.current(), ring.after('one'), ring.after('two')]).toEqual(['one', 'two', null]);
    ring.took('one');
    for (let i = 0; i < 9; i++) expect(ring.refuse('one')).toBe(false);
    expect(ring.refuse('one')).toBe(true);
    expect([ring.current(), ring.after('one')]).toEqual(['two', 'two']);
    expect(ring.refuse('two')).toBe(true);
    expect([ring.current(), ring.after('two')]).toEqual([null, null]);
  });

  it('does not try a key that is set twice a second time', () => {
    const ring = new KeyRing(['one', 'one']);
    ring.refuse('one');
    expect(ring.current()).toBeNull();
  });

  it('fault 57: trims white space around a key, as copying leaves it', () => {
    expect(new KeyRing([' one\r\n']).current()).toBe('one');
    expect(new KeyRing(['  ', 'two']).current()).toBe('two');
  });

  it.each(['secret\nkey', 'secret\u0000key', 'sécret', 'secret key', 'secret\u{1f511}'])(
    'fault 57: refuses %j at the start without showing it',
    (key) => {
      let caught: unknown;
      try {
        new KeyRing(['good', key]);
      } catch (error) {
        caught = error;
      }
      expect(caught).toBeInstanceOf(UsageError);
      expect(caught).toMatchObject({ code: 'bad_key' });
      expect(inspect(caught, { depth: 9 }).split('\n    at ')[0]).not.toMatch(/s[eé]cret/);
    },
  );

  it('refuses to start without a key', () => {
    expect(() => new KeyRing([])).toThrow(UsageError);
    expect(() => new KeyRing(['', ' '])).toThrow('PROMPTMILL_API_KEY');
  });

  it('fault 53: shows its keys to no log, inspector or serialiser', () => {
    const ring = new KeyRing(['canary-one', 'canary-two']);
    for (const shown of [
      String(ring),
      JSON.stringify({ ring }),
      inspect(ring, { showHidden: true, depth: 9 }),
      JSON.stringify(Object.entries(ring)),
      JSON.stringify({ ...ring }),
    ]) {
      expect(shown).not.toContain('canary');
    }
  });
});
