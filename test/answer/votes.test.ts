import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerReader, asVoted } from '../../src/answer/answer.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import type { Choice, Completed, Completion } from '../../src/core/model.js';

const LABELS: AnswerSpec = { kind: 'labels', labels: ['positive', 'negative', 'neutral'], votes: 5 };

const completion = ([text = '', ...others]: readonly string[], more: Partial<Choice> = {}): Completion => ({
  ...{ text, finish_reason: 'stop', usage: null, model: null, id: null, created: null },
  others: others.map((other) => ({ text: other, finish_reason: 'stop', ...more })),
});
const read = (spec: AnswerSpec, ...texts: readonly string[]) => answerReader(spec).read(completion(texts));
const confidenceOf = ({ confidence }: ReturnType<typeof read>) =>
  confidence && { value: confidence.value, ...Object.fromEntries(confidence.probabilities) };

describe('the votes of several choices', () => {
  it.each([
    [
      'all agree, in any spelling',
      [' positive', 'Positive.', '**positive**', 'positive', ' POSITIVE'],
      'positive',
      { value: 1, positive: 1 },
    ],
    [
      'the majority wins, and the others have their shares',
      ['negative', 'positive', 'neutral', 'positive', 'positive'],
      'positive',
      { value: 0.6, positive: 0.6, negative: 0.2, neutral: 0.2 },
    ],
    [
      'of two with as many votes, the one that came first wins',
      ['neutral', 'negative', 'positive', 'positive', 'negative'],
      'negative',
      { value: 0.4, neutral: 0.2, negative: 0.4, positive: 0.4 },
    ],
    [
      'what is no label is a vote for nothing',
      ['mixed', 'I cannot say', 'mixed', 'negative', 'positive or negative'],
      'negative',
      { value: 0.2, negative: 0.2 },
    ],
    [
      'choices that did not come lower the share',
      ['negative', 'negative', 'positive'],
      'negative',
      { value: 0.4, negative: 0.4, positive: 0.2 },
    ],
  ])('%s', (_, texts, label, confidence) => {
    const answer = read(LABELS, ...texts);
    expect(answer).toMatchObject({ values: [label], counted: [label], problem: null });
    expect(confidenceOf(answer)).toEqual(confidence);
  });

  it('give no answer where none is one: the problem is that of the first', () => {
    const answer = read(LABELS, 'mixed', 'unclear', 'it depends');
    expect(answer).toMatchObject({
      values: [null],
      confidence: null,
      problem: { code: 'answer_not_a_label' },
    });
    expect(answer.problem?.message).toContain('"mixed"');
    expect(answer.choice).toBeUndefined();
  });

  it('are counted by the label, whatever its synonym; numbers by their value', () => {
    const spec: AnswerSpec = { ...LABELS, labels: ['good', 'bad'], synonyms: [['positive'], []], votes: 3 };
    expect(confidenceOf(read(spec, 'bad', 'good', 'Positive'))).toEqual({
      value: 0.666667,
      good: 0.666667,
      bad: 0.333333,
    });
    const stars: AnswerSpec = { kind: 'number', min: 1, max: 5, votes: 4 };
    const answer = read(stars, '3', '4/5', 'Rating: 4.0', '9');
    expect(answer).toMatchObject({ values: [4], counted: ['4'] });
    expect(confidenceOf(answer)).toEqual({ value: 0.5, 3: 0.25, 4: 0.5 });
  });

  it('that agree too little leave the label out', () => {
    const spec: AnswerSpec = { ...LABELS, abstainBelow: 0.6 };
    const split = read(spec, 'positive', 'negative', 'positive', 'neutral', 'negative');
    expect(split).toMatchObject({
      values: [null],
      abstained: true,
      label: 'positive',
      counted: ['(abstained)'],
    });
    expect(split.confidence?.value).toBe(0.4);
    expect(read(spec, 'positive', 'negative', 'positive', 'positive')).toMatchObject({
      values: ['positive'],
      abstained: false,
    });
    expect(read(spec, 'mixed')).toMatchObject({ values: [null], abstained: false });
  });

  it('the winner has the most votes, and confidence and shares follow from nothing but the votes', () => {
    const said = fc.constantFrom('positive', 'negative', 'neutral', 'mixed');
    fc.assert(
      fc.property(fc.array(said, { minLength: 1, maxLength: 9 }), fc.nat(3), (texts, missing) => {
        const votes = texts.length + missing;
        const answer = read({ ...LABELS, votes }, ...texts);
        const valid = texts.filter((text) => text !== 'mixed');
        const count = (label: string) => valid.filter((text) => text === label).length;
        if (valid.length === 0) {
          expect(answer.confidence).toBeNull();
          return;
        }
        const [label] = answer.values;
        const most = Math.max(...valid.map(count));
        // The first text whose label has the most votes.
        expect(label).toBe(valid.find((text) => count(text) === most));
        expect(answer.confidence?.value).toBeCloseTo(most / votes, 6);
        for (const [name, share] of answer.confidence?.probabilities ?? [])
          expect(share).toBeCloseTo(count(name) / votes, 6);
      }),
    );
  });
});

describe('the record of a row that was voted on', () => {
  const outcome = (said: Completion): Completed => ({
    status: 'completed',
    completion: said,
    filters: { prompt: { hate: { severity: 'safe' } }, completion: { hate: { severity: 'low' } } },
    attempts: 1,
    latency_ms: 1,
  });
  const shown = (said: Completion) => {
    const whole = outcome(said);
    return asVoted(whole, answerReader(LABELS).read(said));
  };

  it('shows a choice that voted for the answer, with what the filter says of it', () => {
    const filters = { hate: { severity: 'medium' } };
    const said = completion(['mixed', 'positive'], { finish_reason: 'length', filters, damaged: 'bytes' });
    expect(shown(said)).toEqual({
      ...outcome(said),
      answer_source: 'voted',
      completion: {
        ...{ text: 'positive', finish_reason: 'length', damaged: 'bytes' },
        ...{ usage: null, model: null, id: null, created: null },
      },
      filters: { prompt: { hate: { severity: 'safe' } }, completion: filters },
    });
    const same = shown({ ...completion(['mixed', 'positive']), damaged: 'cut' });
    expect(same).toMatchObject({ filters: outcome(said).filters, completion: { text: 'positive' } });
    expect(same).not.toHaveProperty('completion.damaged');
  });

  it('shows the first choice where that won, or where there is no answer', () => {
    for (const texts of [
      ['positive', 'negative'],
      ['mixed', 'unclear'],
    ]) {
      const said: Completion = { ...completion(texts), damaged: 'bytes' };
      expect(shown(said)).toEqual({ ...outcome(said), answer_source: 'voted' });
    }
  });

  it('says of a row that was asked again that it was', () => {
    const said = completion(['positive']);
    const again = { ...outcome(said), answer_source: 'asked_again' } as const;
    expect(asVoted(again, answerReader(LABELS).read(said))).toMatchObject({ answer_source: 'asked_again' });
  });

  it('leaves a row alone that a filter blocked, or that failed', () => {
    const failed = {
      status: 'failed',
      error: { code: 'x', message: '' },
      attempts: 1,
      latency_ms: 1,
    } as const;
    expect(asVoted(failed, null)).toBe(failed);
  });
});
