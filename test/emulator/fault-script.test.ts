import { afterAll, describe, expect, it } from 'vitest';
import { readFaultScript } from '../../src/emulator/fault-plan.js';
import { startEmulator } from '../../src/emulator/server.js';
import { UsageError } from '../../src/errors.js';
import { Workplace } from '../support/promptmill.js';
import { call, SENTIMENT } from './call.js';

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
