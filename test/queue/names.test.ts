import { describe, expect, it } from 'vitest';
import { queueOfSet, serviceQueue } from '../../src/queue/names.js';

const at = (name: string, baseUrl = `https://${name}.example`) => ({
  ...{ name, deployment: `d-${name}` },
  address: { baseUrl, segment: 'openai' },
});
const [west, east] = [at('west'), at('east')];

describe('the queue of a list of endpoints', () => {
  it('is that of its deployment where there is one, whatever its name', () => {
    expect(queueOfSet([west], false)).toBe(serviceQueue('d-west', west.address));
    expect(queueOfSet([{ ...west, name: 'other' }], false)).toBe(serviceQueue('d-west', west.address));
  });

  it('is another for each set, in any order', () => {
    const both = queueOfSet([west, east], false);
    expect(both).toMatch(/^promptmill-east_west-[0-9a-f]{8}$/);
    expect(queueOfSet([east, west], false)).toBe(both);
    const others = [
      queueOfSet([west], false),
      queueOfSet([west, at('east', 'https://elsewhere.example')], false),
      queueOfSet([west, { ...east, deployment: 'another' }], false),
      queueOfSet([west, east], true),
    ];
    expect(new Set([both, ...others]).size).toBe(5);
    expect(others[3]).toMatch(/-emulated-/);
  });
});
