import fc from 'fast-check';
import * as cl100k_base from 'gpt-tokenizer/encoding/cl100k_base';
import * as o200k_base from 'gpt-tokenizer/encoding/o200k_base';
import * as p50k_base from 'gpt-tokenizer/encoding/p50k_base';
import { describe, expect, it } from 'vitest';
import { type Encoding, loadTokenizer } from '../../src/prompt/tokens.js';

const ENCODINGS: Encoding[] = ['cl100k_base', 'p50k_base', 'o200k_base'];
const libraries = { cl100k_base, p50k_base, o200k_base };

describe.each(ENCODINGS)('the %s tokenizer', (encoding) => {
  it('gives back the text it encoded, and counts what it encodes', async () => {
    const tokenizer = loadTokenizer(encoding);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        const tokens = tokenizer.encode(text);
        expect(tokenizer.decode(tokens)).toBe(text);
        expect(tokenizer.count(text)).toBe(tokens.length);
      }),
      { seed: 7, numRuns: 300 },
    );
  });

  it('takes special-token text for plain text', async () => {
    const tokenizer = loadTokenizer(encoding);
    const tokens = tokenizer.encode('a <|endoftext|> b <|im_start|>');
    expect(tokens.length).toBeGreaterThan(8);
    expect(tokenizer.decode(tokens)).toBe('a <|endoftext|> b <|im_start|>');
  });

  it('does not carry half a character into the next call', async () => {
    const tokenizer = loadTokenizer(encoding);
    const [first = -1] = tokenizer.encode('𓂀');
    expect(tokenizer.decode([first])).toBe('\uFFFD');
    expect(tokenizer.decode(tokenizer.encode('中文'))).toBe('中文');
  });

  it.each(['a', ' ', '\n', '!', '7', '中', 'ab'])(
    'fault 7: cuts long runs of %j, so that its time does not grow with their square',
    async (unit) => {
      const tokenizer = loadTokenizer(encoding);
      const text = unit.repeat(100_000 / unit.length);
      // Uncut, each of these takes seconds to minutes; the default time limit of a test is the bound.
      const tokens = tokenizer.encode(text);
      expect(tokenizer.decode(tokens)).toBe(text);
      const short = unit.repeat(4_096 / unit.length);
      const exact = libraries[encoding].countTokens(short);
      // 4,096 characters are cut seven times; a cut costs at most two tokens.
      expect(Math.abs(tokenizer.count(short) - exact)).toBeLessThanOrEqual(14);
    },
  );
});

describe('the two tokenizers', () => {
  it('count as the models do', async () => {
    // Token ids as published for "hello world" in these encodings.
    expect(loadTokenizer('cl100k_base').encode('hello world')).toEqual([15339, 1917]);
    expect(loadTokenizer('p50k_base').encode('hello world')).toEqual([31373, 995]);
  });

  it('are loaded once', () => {
    expect(loadTokenizer('p50k_base')).toBe(loadTokenizer('p50k_base'));
  });
});
