import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
