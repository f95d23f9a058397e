import { expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { CalledOutcome, Completed } from '../../src/core/model.js';
import type { OnInvalid } from '../../src/queue/chunk.js';
import { AnswerCheck } from '../../src/worker/answer-check.js';
import { outcome } from '../store/samples.js';

const LABELS = { kind: 'labels', labels: ['yes', 'no'] } as const;
const row = (number = 1) => ({ row: number, prompt: 'Is it?', parameters: null });

const asking = (asks: Partial<OnInvalid> = {}): AnswerCheck => {
  const prompt = '{{ answer }}, {{ problem }}: {{ prompt }}';
  return new AnswerCheck(
    { answer: LABELS, again: 2, prompt, deployment: null, ...asks },
    answerReader(LABELS),
  );
};

const said = (text: string, attempts = 1): Completed => {
  const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
  const whole = outcome(text);
  return { ...whole, attempts, completion: { ...whole.completion, text, usage } };
};
const failed: CalledOutcome = {
  ...{ status: 'failed', attempts: 1, latency_ms: 5 },
  error: { code: 'invalid_request', message: 'too long' },
};

it('settles an answer that fits as it is', () => {
  const answer = said('yes');
  expect(asking().judge(row(), answer)).toEqual({ kind: 'final', outcome: answer });
});

it('asks again with what was wrong, up to n times, and adds up what that took', () => {
  const chunk = asking();
  const first = chunk.judge(row(), said('maybe'));
  expect(first).toMatchObject({ interim: 1, outcome: { asked: 1, completion: { text: 'maybe' } } });
  expect(chunk.next(row()).prompt).toMatch(/^maybe, .*"maybe".*: Is it\?$/);
  expect(chunk.next(row(2))).toEqual(row(2));

  const second = chunk.judge(row(), said('perhaps', 3));
  expect(second).toMatchObject({
    interim: 2,
    outcome: { asked: 2, attempts: 4, completion: { text: 'perhaps', usage: { total_tokens: 24 } } },
  });
  const last = chunk.judge(row(), said('no'));
  expect(last.interim).toBeUndefined();
  expect(last.outcome).toMatchObject({
    ...{ status: 'completed', asked: 3, answer_source: 'asked_again' },
    completion: { text: 'no', usage: { prompt_tokens: 30, completion_tokens: 6, total_tokens: 36 } },
  });
});

it('ends with the last answer where none fits', () => {
  const chunk = asking({ again: 1 });
  chunk.judge(row(), said('maybe'));
  const last = chunk.judge(row(), said('perhaps'));
  expect(last.interim).toBeUndefined();
  expect(last.outcome).toMatchObject({ asked: 2, completion: { text: 'perhaps' } });
});

it('asks another deployment last, with the prompt itself', () => {
  const chunk = asking({ again: 1, deployment: 'larger' });
  chunk.judge(row(), said('maybe'));
  expect(chunk.isEscalated(row())).toBe(false);
  expect(chunk.judge(row(), said('perhaps')).interim).toBe(2);
  expect(chunk.isEscalated(row())).toBe(true);
  expect(chunk.next(row())).toEqual(row());
  expect(chunk.judge(row(), said('yes'))).toMatchObject({
    outcome: { asked: 3, answer_source: 'escalated', completion: { text: 'yes' } },
  });
});

it('keeps the answer that there is when a later call fails or is filtered, and what that took', () => {
  const chunk = asking();
  chunk.judge(row(), said('maybe'));
  expect(chunk.judge(row(), failed).outcome).toMatchObject({ status: 'completed', attempts: 2, asked: 2 });
  const filtered: CalledOutcome = {
    ...{ ...said('no'), status: 'filtered' },
    error: { code: 'content_filter', message: 'blocked' },
  };
  expect(chunk.judge(row(), filtered)).toEqual({
    kind: 'final',
    outcome: expect.objectContaining({
      status: 'completed',
      completion: expect.objectContaining({
        text: 'maybe',
        usage: expect.objectContaining({ total_tokens: 24 }),
      }),
    }),
  });
  expect(chunk.lasting(row(2), failed)).toBe(failed);
});

it('says what was paid to each endpoint and in each tier, also when the last call fails', () => {
  const at = (text: string, endpoint: string, tier: string): Completed => {
    const whole = said(text);
    return { ...whole, endpoint, completion: { ...whole.completion, tier } };
  };
  const usage = (calls: number) => expect.objectContaining({ prompt_tokens: 10 * calls });
  const chunk = asking();
  chunk.judge(row(), at('maybe', 'west', 'flex'));
  chunk.judge(row(), at('perhaps', 'east', 'flex'));
  const lost = { ...failed, endpoint: 'east' };
  expect(chunk.lasting(row(), lost)).toMatchObject({
    endpoint: 'east',
    endpoints: { west: usage(1), east: usage(1) },
    completion: { tier: 'flex', tiers: { flex: usage(2) } },
  });
  expect(chunk.judge(row(), at('no', 'west', 'online')).outcome).toMatchObject({
    endpoint: 'west',
    endpoints: { west: usage(2), east: usage(1) },
    completion: { tier: 'online', tiers: { flex: usage(2), online: usage(1) } },
  });
});

it('goes on where an earlier lease has ended', () => {
  const before = asking();
  const { outcome: interim } = before.judge(row(), said('maybe'));
  const after = asking();
  after.resume(new Map([[1, JSON.parse(JSON.stringify(interim))]]));
  expect(after.next(row())).toEqual(before.next(row()));
  expect(after.judge(row(), said('yes'))).toEqual(before.judge(row(), said('yes')));
});

it('settles an answer whose reading fails: it is paid for, and the collector says what is wrong', () => {
  const reader = answerReader(LABELS);
  const read = () => {
    throw new Error('no answer can be read');
  };
  const chunk = new AnswerCheck(
    { answer: LABELS, again: 2, prompt: null, deployment: null },
    { ...reader, read },
  );
  const answer = said('yes');
  expect(chunk.judge(row(), answer)).toEqual({ kind: 'final', outcome: answer });
});
