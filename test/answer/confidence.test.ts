import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { confidenceReader, sameBeginning } from '../../src/answer/confidence.js';
import type { Json } from '../../src/core/model.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';

const SENTIMENTS = [['positive'], ['negative'], ['neutral', 'mixed']];
const read = confidenceReader(SENTIMENTS);

/** Log probabilities in the form of the completions operation: tokens, each with the probabilities in its place. */
const logprobs = (...tokens: readonly (readonly [string, Readonly<Record<string, number>>])[]): Json => ({
  tokens: tokens.map(([token]) => token),
  token_logprobs: tokens.map(([token, top]) => Math.log(top[token] ?? 1e-9)),
  top_logprobs: tokens.map(([, top]) =>
    Object.fromEntries(Object.entries(top).map(([token, p]) => [token, Math.log(p)])),
  ),
  text_offset: tokens.map(() => 0),
});

const asObject = (confidence: ReturnType<typeof read>) =>
  confidence && { value: confidence.value, ...Object.fromEntries(confidence.probabilities) };

describe('the confidence in a label', () => {
  it.each<[string, Json, string, object | null]>([
    [
      'adds up the ways to write its first token, and keeps what is not listed',
      logprobs([' positive', { ' positive': 0.6, Positive: 0.2, ' neg': 0.1, ' mixed': 0.05 }]),
      'positive',
      { value: 0.8, positive: 0.8, negative: 0.1, neutral: 0.05 },
    ],
    [
      'leaves out what begins no label',
      logprobs([' positive', { ' positive': 0.4, ' negative': 0.1, ' the': 0.5 }]),
      'positive',
      { value: 0.8, positive: 0.8, negative: 0.2 },
    ],
    [
      'is read where the label begins, behind white space and words',
      logprobs(
        ['\n\n', { '\n\n': 0.5 }],
        ['Sent', { Sent: 0.9 }],
        [' "neg', { ' "neg': 0.75, ' "pos': 0.25 }],
        ['ative', { ative: 1 }],
      ),
      'negative',
      { value: 0.75, negative: 0.75, positive: 0.25 },
    ],
    [
      'counts the token that was drawn, also where it is not among the likeliest',
      {
        tokens: ['neutral'],
        token_logprobs: [Math.log(0.1)],
        top_logprobs: [{ positive: Math.log(0.5), negative: Math.log(0.4) }],
      },
      'neutral',
      { value: 0.1, positive: 0.5, negative: 0.4, neutral: 0.1 },
    ],
    [
      'gives what may begin several labels to none of them',
      logprobs([' pos', { ' pos': 0.5, n: 0.3, ' neg': 0.2 }], ['itive', { itive: 1 }]),
      'positive',
      { value: 0.5, positive: 0.5, negative: 0.2 },
    ],
    [
      'reads the form of chat servers',
      {
        content: [
          {
            token: 'Positive',
            logprob: Math.log(0.75),
            top_logprobs: [
              { token: 'Positive', logprob: Math.log(0.75) },
              { token: 'Neutral', logprob: Math.log(0.25) },
            ],
          },
        ],
      },
      'positive',
      { value: 0.75, positive: 0.75, neutral: 0.25 },
    ],
    [
      'is that of the label, and not of a word before it that begins alike',
      logprobs([' p', { ' p': 0.9, ' the': 0.1 }], [' pos', { ' pos': 0.9 }], ['itive', { itive: 1 }]),
      'positive',
      { value: 0.9, positive: 0.9 },
    ],
    [
      'is that of the label, and not of a longer word that begins with it',
      logprobs([' positively', { ' positively': 1 }], [' neg', { ' neg': 0.7, ' pos': 0.3 }], ['ative', {}]),
      'negative',
      { value: 0.7, negative: 0.7, positive: 0.3 },
    ],
    ['is not known where the label begins nowhere', logprobs([' good', { ' good': 0.9 }]), 'positive', null],
    [
      'is not known where its first token begins another as well',
      logprobs(['n', { n: 1 }]),
      'negative',
      null,
    ],
    ['is not known without log probabilities', null, 'positive', null],
    ['is not known in odd ones', { tokens: 'x', token_logprobs: [1], top_logprobs: [[]] }, 'positive', null],
  ])('%s', (_, said, label, expected) => {
    expect(asObject(read(said, label))).toEqual(expected);
  });

  it('is a probability whatever the service sends', () => {
    const token = fc.oneof(fc.constantFrom(' positive', 'neg', 'Neutral', 'n', ' mixed', '"'), fc.string());
    const top = fc.dictionary(token, fc.oneof(fc.double(), fc.double({ min: -20, max: 0 })), { maxKeys: 6 });
    const said = fc.oneof(
      fc.jsonValue(),
      fc.array(fc.tuple(token, fc.double({ min: -20, max: 1 }), top), { maxLength: 4 }).map((all) => ({
        tokens: all.map(([each]) => each),
        token_logprobs: all.map(([, own]) => own),
        top_logprobs: all.map(([, , others]) => others),
      })),
    );
    const property = fc.property(said, fc.constantFrom('positive', 'negative', 'neutral'), (json, label) => {
      const confidence = read(json as Json, label);
      if (confidence === null) return;
      const all = [...confidence.probabilities.values()];
      expect(Math.min(...all)).toBeGreaterThanOrEqual(0);
      expect(all.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(1 + 1e-5);
      expect(confidence.value).toBe(confidence.probabilities.get(label) ?? 0);
    });
    fc.assert(property, { seed: 13, numRuns: 2_000 });
  });

  it('fault 74: looks a token up among 20,000 labels without going through them', () => {
    const labels = Array.from({ length: 20_000 }, (_, i) => [`label ${String(i).padStart(5, '0')}`]);
    let reads = 0;
    const counted = labels.map(
      (names) =>
        new Proxy(names, {
          get: (target, name) => {
            if (name === '0') reads++;
            return Reflect.get(target, name);
          },
        }),
    );
    const many = confidenceReader(counted);
    reads = 0;
    const said = logprobs(['label 00017', { 'label 00017': 0.9, 'label 19999': 0.1 }]);
    expect(asObject(many(said, 'label 00017'))).toEqual({
      value: 0.9,
      'label 00017': 0.9,
      'label 19999': 0.1,
    });
    expect(reads).toBeLessThan(10);
  });
});

describe('labels that begin alike', () => {
  const tokenizer = loadTokenizer('cl100k_base');
  const firstToken = (text: string): string => tokenizer.decode(tokenizer.encode(text).slice(0, 1));

  it.each([
    ['tell themselves apart by their first tokens', SENTIMENTS, null],
    ['are found', [['not good'], ['not bad']], { names: ['not good', 'not bad'], token: 'not' }],
    [
      'are found among synonyms',
      [['good'], ['bad', 'good for nothing']],
      { names: ['good', 'good for nothing'], token: 'good' },
    ],
    ['may be numbers', [['1'], ['2'], ['10']], null],
    ['may be the names of one label', [['good', 'good enough'], ['bad']], null],
  ])('%s', (_, labels, expected) => {
    expect(sameBeginning(labels, firstToken)).toEqual(expected);
  });
});
