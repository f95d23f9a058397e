import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { jsonMembers } from '../../src/output/json-members.js';

const read = (text: string): [string, unknown][] => {
  const bytes = Buffer.from(text);
  const members = jsonMembers(bytes);
  return members.names().map((name) => {
    const place = members.placeOf(name);
    return [name, place && JSON.parse(bytes.toString('utf8', place.start, place.end))];
  });
};

describe('the members of a JSON object in bytes', () => {
  it('are those that JSON.parse finds, however it is written', () => {
    const names = fc.oneof(
      fc.constantFrom('status', 'a"b', '\\', 'é', '__proto__'),
      fc.string({ unit: 'binary' }),
    );
    const members = fc.uniqueArray(fc.tuple(names, fc.jsonValue()), { selector: ([name]) => name });
    const space = fc.constantFrom('', ' ', '\t\r\n ');
    fc.assert(
      fc.property(members, space, space, (all, before, behind) => {
        const one = ([name, value]: [string, unknown]): string =>
          [JSON.stringify(name), ':', JSON.stringify(value, null, before)].join(behind);
        const text = `${before}{${before}${all.map(one).join(`${behind},${before}`)}${behind}}\n`;
        expect(read(text)).toEqual(all.map(([name, value]) => [name, JSON.parse(JSON.stringify(value))]));
      }),
    );
  });

  it('are known by their names, whatever these are written as, and the last of one name counts', () => {
    expect(read('{"\\u0061":1,"b":2,"\\u0061":3}')).toEqual([
      ['a', 3],
      ['b', 2],
      ['a', 3],
    ]);
    const members = jsonMembers(Buffer.from('{"ab":1,"in":{"c":2}}'));
    expect(['a', 'abc', 'é', 'c'].map(members.placeOf)).toEqual([null, null, null, null]);
    // Half a character is not the sign that stands for it.
    const odd = jsonMembers(Buffer.from('{"größe":1,"":2,"\ufffd":3,"größe":4}'));
    expect(['größe', '', '\ufffd', '\ud800', 'gr'].map((name) => odd.placeOf(name)?.start)).toEqual([
      ...[36, 16, 24, undefined, undefined],
    ]);
    expect(jsonMembers(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])).placeOf('\ufffd')).toEqual({
      ...{ start: 5, end: 6 },
    });
  });

  it('are found without reading a name as JSON, where none has an escape', () => {
    const parse = vi.spyOn(JSON, 'parse');
    try {
      const members = jsonMembers(Buffer.from('{"größe":1,"naïve":2}'));
      expect([members.placeOf('größe')?.start, members.placeOf('none')]).toEqual([11, null]);
      expect(parse).not.toHaveBeenCalled();
    } finally {
      parse.mockRestore();
    }
  });

  it('are refused where the object is cut off at any byte, or anything else stands in its place', () => {
    const whole = '{"a":"x\\"y","b":[1,{"c":"]"}],"d":-1.5e3,"e":null}';
    for (let end = 0; end < whole.length; end++)
      expect(() => jsonMembers(Buffer.from(whole.slice(0, end))), whole.slice(0, end)).toThrow(SyntaxError);
    for (const text of [
      '',
      '[]',
      '1',
      '{,}',
      '{"a"}',
      '{"a":}',
      '{"a":1 "b":2}',
      '{"a":1,}',
      '{}{}',
      '{"a":1}]',
    ])
      expect(() => jsonMembers(Buffer.from(text)), text).toThrow(SyntaxError);
  });
});
