import { afterAll, describe, expect, it } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import {
  FaultPlan,
  type FaultRate,
  readFaultScript,
  type ScriptRule,
} from '../../src/emulator/fault-plan.js';
import { startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { call, named, SENTIMENT } from './call.js';

const PROMPTS = Array.from({ length: 2000 }, (_, i) => `Review ${i}: I love it!`);

/** Names of the faults that befall prompts, in their order. */
function drawn(plan: FaultPlan, prompts: readonly string[]): (string | null)[] {
  return prompts.map((prompt) => plan.next([prompt])?.fault.name ?? null);
}

describe('faults by share', () => {
  const RATES: FaultRate[] = [
    { fault: named('500'), rate: 0.02 },
    { fault: named('reset'), rate: 0.01 },
  ];

  it('befall their share of the requests', () => {
    const faults = drawn(new FaultPlan(RATES, [], 1), PROMPTS);
    const count = (name: string) => faults.filter((fault) => fault === name).length;
    expect(count('500')).toBeGreaterThan(20);
    expect(count('500')).toBeLessThan(65);
    expect(count('reset')).toBeGreaterThan(8);
    expect(count('reset')).toBeLessThan(36);
  });

  it('befall the same prompts again in another run, in whatever order they come', () => {
    const first = drawn(new FaultPlan(RATES, [], 1), PROMPTS);
    const backwards = drawn(new FaultPlan(RATES, [], 1), PROMPTS.toReversed()).toReversed();
    expect(backwards).toEqual(first);
    expect(drawn(new FaultPlan(RATES, [], 2), PROMPTS)).not.toEqual(first);
  });

  it('spare a prompt that is sent again as often as any other', () => {
    const plan = new FaultPlan([{ fault: named('500'), rate: 0.5 }], [], 1);
    const failed = PROMPTS.filter((prompt) => plan.next([prompt]) !== null);
    const again = drawn(plan, failed).filter((fault) => fault !== null).length;
    expect(again / failed.length).toBeGreaterThan(0.45);
    expect(again / failed.length).toBeLessThan(0.55);
  });
});

describe('faults by script', () => {
  const script = (...rules: Omit<ScriptRule, 'fault'>[]) =>
    new FaultPlan(
      [],
      rules.map((rule, index) => ({ ...rule, fault: named(String(500 + index)) })),
      1,
    );

  it('befall the requests that are counted, and the prompts that are named', () => {
    const plan = script({ from: 2, to: 3 }, { prompt: 'five' }, { from: 6, times: 1 });
    expect(drawn(plan, ['one', 'two', 'three', 'four', 'five', 'six', 'seven'])).toEqual([
      null,
      '500',
      '500',
      null,
      '501',
      '502',
      null,
    ]);
  });

  it('stop after the times they are told to apply, so that a retry succeeds', () => {
    expect(drawn(script({ prompt: 'a', times: 2 }), ['a', 'a', 'a'])).toEqual(['500', '500', null]);
  });

  it('find their prompt anywhere in an array', () => {
    expect(script({ prompt: 'b' }).next(['a', 'b c'])?.fault.name).toBe('500');
  });
});

const work = new Workplace();
afterAll(() => work.remove());

function read(text: string) {
  return readFaultScript(work.path(work.write('script.yaml', text)));
}

describe('a fault script', () => {
  it('names requests, prompts and faults', () => {
    expect(
      read('- {request: 3, fault: 500}\n- {from: 10, to: 20, prompt: bad, times: 2, fault: reset}'),
    ).toEqual([
      { from: 3, to: 3, fault: { kind: 'status', name: '500', status: 500 } },
      { from: 10, to: 20, prompt: 'bad', times: 2, fault: { kind: 'reset', name: 'reset' } },
    ]);
  });

  it('may be JSON, with a reply word for word', async () => {
    const script = read(
      '[{"prompt": "love", "reply": {"status": 418, "headers": {"retry-after": 7}, "body": {"error": "no tea"}}}]',
    );
    const emulator = await startEmulator({ script });
    const { status, headers, body } = await call(emulator, { prompt: SENTIMENT });
    expect([status, headers.get('retry-after'), body]).toEqual([418, '7', { error: 'no tea' }]);
    expect(emulator.stats().by_fault).toEqual({ reply: 1 });
    await emulator.close();
  });

  it.each([
    ['{a: 1}', /expected array/],
    ['- {fault: 900}', /rule 1\.fault: no fault 900; there are a status from 300 to 599, reset/],
    ['- {request: 1}', /rule 1: needs one of fault and reply/],
    ['- {fault: 500, reply: {status: 500}}', /rule 1: needs one of fault and reply/],
    ['- {fault: 500}\n- {requests: 1, fault: 500}', /rule 2: .*requests/],
    ['- {request: 0, fault: 500}', /rule 1\.request: /],
    ['- [', /cannot read --script/],
  ])('is refused when it is %j', (text, message) => {
    expect(() => read(text)).toThrow(UsageError);
    expect(() => read(text)).toThrow(message);
  });
});
