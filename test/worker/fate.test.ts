import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { Unsettled, Verdict } from '../../src/service/verdict.js';
import { AnswerCheck } from '../../src/worker/answer-check.js';
import { fateOf } from '../../src/worker/fate.js';
import { outcome } from '../store/samples.js';

const ROW = { row: 1, prompt: 'Is it?', parameters: null };
const LABELS = { kind: 'labels', labels: ['yes', 'no'] } as const;
const PLAIN = { asking: null, attempt: 2, hold: false, elsewhere: false };
const final: Verdict = { kind: 'final', outcome: outcome('maybe') };
const failed = (more: Partial<Unsettled> = {}): Unsettled => ({
  ...{ kind: 'retry', problem: { code: 'connection_reset', message: 'the connection was closed' } },
  ...{ latency_ms: 5, connected: true, possiblyBilled: true },
  ...more,
});
const aborted = { problem: { code: 'aborted', message: 'the call was abandoned' } };

describe('the fate of a row after its call', () => {
  it.each<[what: string, verdict: Verdict | undefined, fate: object]>([
    ['is its outcome', final, final],
    ['is to be called again, with the next attempt', failed(), failed()],
    ['is to be called again alone', failed({ alone: true }), { kind: 'retry', alone: true }],
    ['is to wait', { kind: 'wait', ms: 5, problem: aborted.problem }, { kind: 'wait', ms: 5 }],
    ['is to come beside fewer others', { kind: 'no_room', problem: aborted.problem }, { kind: 'no_room' }],
    ['is to come later', { kind: 'no_capacity', problem: aborted.problem }, { kind: 'no_capacity' }],
    [
      'is left to others, when the run stops',
      failed({ kind: 'stop' }),
      { kind: 'left', possiblyBilled: true },
    ],
    [
      'is left to others, when the call was abandoned',
      failed(aborted),
      { kind: 'left', possiblyBilled: true },
    ],
    ['is left to others, when nothing is known of it', undefined, { kind: 'left', possiblyBilled: false }],
  ])('%s', (_, verdict, fate) => {
    expect(fateOf(verdict, ROW, PLAIN)).toMatchObject(fate);
  });

  it('is to be asked again while its answer does not fit', () => {
    const asks = { answer: LABELS, again: 1, prompt: null, deployment: null };
    const asking = new AnswerCheck(asks, answerReader(LABELS));
    expect(fateOf(final, ROW, { ...PLAIN, asking })).toMatchObject({ kind: 'final', interim: 1 });
    const last = fateOf(final, ROW, { ...PLAIN, asking });
    expect(last).toMatchObject({ kind: 'final', outcome: { asked: 2 } });
    expect(last).not.toHaveProperty('interim');
  });

  it('with `hold` is an outcome that says that its answer may be lost, unless it cannot be billed', () => {
    const unknown = { kind: 'final', outcome: { status: 'failed', attempts: 2, latency_ms: 5 } };
    const held = { ...PLAIN, hold: true };
    expect(fateOf(failed(), ROW, held)).toMatchObject(unknown);
    expect(fateOf(failed(aborted), ROW, held)).toMatchObject(unknown);
    expect(fateOf(failed({ possiblyBilled: false }), ROW, held)).toMatchObject({ kind: 'retry' });
    const refused = failed({ kind: 'stop' });
    expect(fateOf(refused, ROW, held), 'the run stops').toMatchObject({ kind: 'left' });
    expect(fateOf(refused, ROW, { ...held, elsewhere: true }), 'another endpoint goes on').toMatchObject(
      unknown,
    );
  });
});
