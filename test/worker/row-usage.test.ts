import { describe, expect, it } from 'vitest';
import type { Parameters, Usage } from '../../src/core/model.js';
import type { Verdict } from '../../src/service/verdict.js';
import { billedFor } from '../../src/worker/billing.js';
import { withRowUsage } from '../../src/worker/row-usage.js';
import { TokenRatio } from '../../src/worker/token-ratio.js';

const KNOWN = { deployment: 'lm-35-turbo-instruct' };
const UNKNOWN = { deployment: 'my-own' };
const row = (prompt: string, number = 1) => ({ row: number, prompt, parameters: null });

const settled = (
  text: string,
  usage: Usage | null,
  odd = false,
  others: readonly string[] = [],
): Verdict => ({
  kind: 'final',
  outcome: {
    status: 'completed',
    completion: {
      ...{ text, finish_reason: 'stop', usage, model: null, id: null, created: null },
      ...(others.length > 0 && { others: others.map((other) => ({ text: other, finish_reason: 'stop' })) }),
    },
    filters: { prompt: null, completion: null },
    attempts: 1,
    latency_ms: 1,
  },
  ...(odd && { oddUsage: 'sent' }),
});
const counts = (prompt_tokens: number, completion_tokens: number, total?: number): Usage => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: total ?? prompt_tokens + completion_tokens,
});
const usageOf = (result: Verdict | undefined): Usage | null | undefined =>
  result?.kind === 'final' && result.outcome.status === 'completed'
    ? result.outcome.completion.usage
    : undefined;
const one = async (result: Verdict, prompt: string, parameters: Parameters = {}, deployed = KNOWN) =>
  (await withRowUsage([result], [row(prompt)], parameters, deployed))[0];

describe('the usage of a row', () => {
  it('is what the service says, also when it is more than it was allowed to generate', async () => {
    for (const usage of [counts(3, 2), counts(3, 2, 9), counts(40, 300), counts(9_000, 400), counts(0, 0)]) {
      const text = usage.total_tokens === 0 ? '' : ' fine';
      expect(usageOf(await one(settled(text, usage), 'How is it?', { max_tokens: 5 }))).toEqual(usage);
    }
  });

  it('stays unknown where the service says nothing', async () => {
    expect(usageOf(await one(settled('x', null), 'y'))).toBeNull();
  });

  it.each([
    ['no counts', null, true],
    ['2^53−1', counts(2 ** 53 - 1, 2 ** 53 - 1, 2 ** 53 - 1), false],
    ['a prompt of 2^53−1', counts(2 ** 53 - 1, 1), false],
    ['a total of 2^53−1', counts(4, 1, 2 ** 53 - 1), false],
    ['a completion of a million', counts(4, 1_000_000), false],
    ['nothing for a text', counts(0, 0), false],
  ])(
    'fault 77: is counted here, and said to be estimated, where the service says %s',
    async (_, usage, odd) => {
      const result = await one(settled(' one two three', usage, odd), 'How is it?', { max_tokens: 8 });
      expect(usageOf(result)).toEqual({ ...counts(4, 3), estimated: true });
      expect(billedFor(result, counts(4, 8))).toMatchObject(counts(4, 3));
    },
  );

  it('fault 77: of a conversation counts what is around its messages', async () => {
    const conversation = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'How is it?' },
    ] as const;
    const count = (deployment: string) =>
      withRowUsage(
        [settled(' one two', null, true)],
        [{ row: 1, prompt: conversation, parameters: null }],
        {},
        { deployment, operation: 'chat' },
      )[0];
    // Seven of the texts, four around each message and three before the answer.
    expect(usageOf(count('lm-35-turbo'))).toMatchObject({ prompt_tokens: 7 + 2 * 4 + 3 });
    const guessed = count('my-own');
    expect(guessed?.kind === 'final' && guessed.mostUsage?.prompt_tokens).toBeGreaterThanOrEqual(
      Buffer.byteLength('Be kind.\nHow is it?') + 2 * 4 + 3,
    );
  });

  it('fault 77: is no more than was allowed, and all candidates and the suffix count', async () => {
    const odd = (text: string): Verdict => settled(text, null, true);
    expect(usageOf(await one(odd(' a b c d e f'), 'p', { max_tokens: 3 }))).toMatchObject(counts(1, 3));
    expect(usageOf(await one(odd(' a b'), 'p', { max_tokens: 5, best_of: 2 }))).toMatchObject(counts(1, 4));
    expect(usageOf(await one(odd(' a b'), 'p', { suffix: ' q r' }))).toMatchObject(counts(3, 2));
    expect(usageOf(await one(odd('p q a'), 'p q', { echo: true }))).toMatchObject(counts(2, 1));
  });

  it('fault 77: of a model that is not known counts for a budget with a token for each byte', async () => {
    const result = await one(settled(' fine', null, true), 'How is it?', {}, UNKNOWN);
    expect(usageOf(result)).toMatchObject({ estimated: true });
    expect(billedFor(result, counts(12, 16))).toEqual({ prompt_tokens: 12, completion_tokens: 7 });
    // Without a budget nothing is reserved, and one that is added later must know what was spent.
    expect(billedFor(result, counts(0, 0)).prompt_tokens).toBeGreaterThan(0);
  });

  it('fault 77: that cannot be shared out is counted for each row of the request', async () => {
    const huge = counts(2 ** 53 - 1, 2 ** 53 - 1);
    const rows = [row('one'), row('one two', 2)];
    const results = await withRowUsage([settled(' a', huge), settled(' a b', huge)], rows, {}, KNOWN);
    expect(results.map(usageOf)).toMatchObject([counts(1, 1), counts(2, 2)]);
  });

  it('fault 77: counts every choice, also those that a filter took', async () => {
    const odd = (...texts: string[]) => settled(' a b', null, true, texts);
    const five = { max_tokens: 5, n: 5 };
    const all = await one(odd(' a', ' a', ' a b c', ' a'), 'p', five);
    expect(usageOf(all)).toMatchObject(counts(1, 8));
    // Two of five are seen, with three tokens: seven and a half for all.
    expect(usageOf(await one(odd(' a'), 'p', five))).toMatchObject(counts(1, 8));
    expect(usageOf(await one(odd(' a b c d e f g'), 'p', { max_tokens: 5, n: 2 }))).toMatchObject(
      counts(1, 9),
    );
    const most = { max_tokens: 3_000, n: 5 };
    const billed = counts(4, 15_000);
    expect(usageOf(await one(settled(' a', billed, false, [' a']), 'How is it?', most))).toEqual(billed);
  });

  it('is shared out by all choices of a row', async () => {
    const rows = [row('one'), row('one', 2)];
    const billed = counts(2, 8);
    const verdicts = [settled(' a', billed, false, [' a b']), settled(' a', billed)];
    const results = await withRowUsage(verdicts, rows, { n: 2 }, KNOWN);
    expect(results.map(usageOf)).toMatchObject([counts(1, 6), counts(1, 2)]);
  });

  it('is shared out between the rows of a request', async () => {
    const rows = [row('one'), row('one two three', 2)];
    const billed = counts(8, 4);
    const results = await withRowUsage([settled(' a', billed), settled(' a', billed)], rows, {}, KNOWN);
    expect(results.map(usageOf)).toMatchObject([counts(2, 2), counts(6, 2)]);
    expect(results.map(usageOf).every((usage) => usage?.estimated)).toBe(true);
  });

  it('of several prompts that are echoed is what the service says, also where nothing was generated', () => {
    const rows = [row('one'), row('one two', 2)];
    const verdicts = [settled('one', counts(3, 0)), settled('one two', counts(3, 0))];
    const results = withRowUsage(verdicts, rows, { echo: true, max_tokens: 0 }, KNOWN);
    expect(results.map(usageOf)).toMatchObject([counts(1, 0), counts(2, 0)]);
    expect(results).not.toContainEqual(expect.objectContaining({ notice: 'short_usage' }));
  });

  it('of several prompts of a model that is not known is what the service says, also where they are full of padding', () => {
    const sharing = (prompts: readonly string[], style: 'openai' | 'deployments') =>
      withRowUsage(
        prompts.map(() => settled(' a', counts(6, 2))),
        prompts.map((prompt, i) => row(prompt, i + 1)),
        {},
        { ...UNKNOWN, style },
      ).map((verdict) => [usageOf(verdict)?.prompt_tokens, verdict.kind === 'final' && verdict.notice]);
    const padded = [`a${' '.repeat(200)}b`, `a${'='.repeat(200)}b`];
    const long = ['many words '.repeat(20), 'many words '.repeat(20)];
    expect(sharing(padded, 'openai')).toEqual(Array(2).fill([3, undefined]));
    expect(sharing(long, 'deployments')).toEqual(Array(2).fill([3, undefined]));
    expect(sharing(long, 'openai')).toEqual(Array(2).fill([expect.any(Number), 'short_usage']));
  });

  /** Rows of a request whose counts are marked as short, of a model that is not known. */
  const marked = (prompts: readonly string[], usage: Usage, texts = prompts.map(() => ' a')): number =>
    withRowUsage(
      texts.map((text) => settled(text, usage)),
      prompts.map((prompt, i) => row(prompt, i + 1)),
      {},
      { ...UNKNOWN, style: 'openai' } as const,
    ).filter((verdict) => verdict.kind === 'final' && verdict.notice === 'short_usage').length;

  // Tokens of one prompt: by a vocabulary of 200,000, and by an older one.
  it.each([
    ['English', 'All human beings are born free and equal in dignity and rights.', [13, 15]],
    ['Japanese', '商品はとても良かったです。配送も早くて満足しています。ありがとうございました。', [20, 40]],
    ['Chinese', '这个产品非常好用，物流速度很快，客服态度也很好，下次还会购买。', [16, 35]],
    ['Korean', '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.', [20, 35]],
  ])(
    'of four prompts in %s is counted here where the service counts the first alone',
    (_, prompt, tokens) => {
      const prompts = Array<string>(4).fill(prompt);
      expect(tokens.map((each) => marked(prompts, counts(each, 4)))).toEqual([4, 4]);
      expect(tokens.map((each) => marked(prompts, counts(4 * each, 4)))).toEqual([0, 0]);
    },
  );

  it.each([
    ['Russian', 'Все люди рождаются свободными и равными в своем достоинстве и правах.', 16],
    ['Hindi', 'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।', 26],
    ['Georgian', 'ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით', 20],
  ])(
    'of four prompts in %s is what the service says, also where its vocabulary is large',
    (_, prompt, each) => {
      expect(marked(Array<string>(4).fill(prompt), counts(4 * each, 4))).toBe(0);
    },
  );

  it('of prompts or answers of unequal length is counted here where those behind the first are missed', () => {
    const short = '良い商品です。';
    const long = '商品はとても良かったです。配送も早くて満足しています。ありがとうございました。';
    expect(marked([short, long], counts(7, 2))).toBe(2);
    expect(marked([short, long], counts(28, 2))).toBe(0);
    expect(marked([short, short], counts(14, 5), [short, long])).toBe(2);
    expect(marked([short, short], counts(14, 28), [short, long])).toBe(0);
  });

  it('fault 96: of several prompts with an answer of one long word each is what the service says, and says how many tokens a prompt has', () => {
    const ratio = new TokenRatio();
    const deployed = { ...UNKNOWN, style: 'openai' as const };
    const prompts = Array.from(
      { length: 20 },
      (_, i) => `review ${i}: the dress is a little too long for what I had in mind`,
    );
    for (let request = 0; request < 3; request++) {
      const rows = prompts.map((prompt, i) => row(prompt, i + 1));
      const verdicts = rows.map(() => settled(' positive', counts(20 * 16, 20)));
      const results = withRowUsage(verdicts, rows, { max_tokens: 5 }, deployed, ratio);
      const usages = results.map(usageOf);
      expect(usages.reduce((sum, usage) => sum + (usage?.prompt_tokens ?? 0), 0)).toBe(20 * 16);
      expect(usages.map((usage) => usage?.completion_tokens)).toEqual(rows.map(() => 1));
      expect(results).not.toContainEqual(expect.objectContaining({ notice: 'short_usage' }));
    }
    expect(ratio.likely(prompts[0] ?? '')).toBeLessThan(20);
  });

  it('of several prompts without spaces between their words is counted here where the first alone is', () => {
    const ratio = new TokenRatio();
    const deployed = { ...UNKNOWN, style: 'openai' as const };
    const rows = Array.from({ length: 10 }, (_, i) =>
      row(`Classify: ${'สินค้าดีมากและจัดส่งรวดเร็ว'.repeat(10)}`, i + 1),
    );
    for (let request = 0; request < 3; request++) {
      const verdicts = rows.map(() => settled(' positive', counts(150, 1)));
      const results = withRowUsage(verdicts, rows, { max_tokens: 5 }, deployed, ratio);
      for (const result of results) expect(usageOf(result)?.prompt_tokens).toBeGreaterThan(50);
      expect(results[9]).toMatchObject({ notice: 'short_usage' });
    }
  });

  it('of several choices is counted here where the service counts the first alone', async () => {
    const votes = { n: 3, max_tokens: 9 };
    const text = ' one two three';
    const judged = async (usage: Usage, deployed: typeof KNOWN) =>
      await one(settled(text, usage, false, [text, text]), 'p', votes, deployed);
    const hosted = { ...UNKNOWN, style: 'deployments' };
    const known = { ...KNOWN, style: 'openai' };
    const unknown = { ...UNKNOWN, style: 'openai' };
    const short = { notice: 'short_usage' };
    // What it says of the prompt is kept.
    expect(usageOf(await judged(counts(7, 3), known))).toEqual({ ...counts(7, 9), estimated: true });
    expect(await judged(counts(7, 3), known)).toMatchObject(short);
    expect(usageOf(await judged(counts(7, 9), known))).toEqual(counts(7, 9));
    expect(await judged(counts(7, 2), unknown)).toMatchObject({ ...short, oddUsage: 'guessed' });
    expect(await judged(counts(7, 5), unknown)).toMatchObject(short);
    expect(usageOf(await judged(counts(7, 9), unknown))).toEqual(counts(7, 9));
    expect(usageOf(await judged(counts(7, 2), hosted))).toEqual(counts(7, 2));
  });

  it('marks a prompt that was cut, and none in which much is repeated', () => {
    const ratio = new TokenRatio();
    const noticeOf = (prompt: string, tokens: number): string | undefined => {
      const said = settled(' good', counts(tokens, 1));
      const [verdict] = withRowUsage([said], [row(prompt)], {}, { ...UNKNOWN, style: 'openai' }, ratio);
      return verdict?.kind === 'final' ? verdict.notice : undefined;
    };
    const words = (count: number): string => Array(count).fill('review').join(' ');
    for (let i = 0; i < 3; i++) expect(noticeOf(words(150 + i), 150 + i)).toBeUndefined();
    expect(noticeOf(words(400), 100)).toBe('prompt_cut');
    for (const repeated of [' ', '-', 'a', '\r\n'])
      expect(noticeOf(`${words(100)} ${repeated.repeat(2_000)}`, 140), repeated).toBeUndefined();
  });
});

describe('what an answer of the flex tier counts in the ledger', () => {
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, cached_tokens: 40 };
  const of = (tier: string): Verdict => {
    const completion = {
      text: 'a',
      finish_reason: 'stop',
      usage,
      tier,
      model: null,
      id: null,
      created: null,
    };
    const filters = { prompt: null, completion: null };
    const outcome = { status: 'completed', completion, filters, attempts: 1, latency_ms: 1 } as const;
    return { kind: 'final', outcome };
  };
  const reserved = { prompt_tokens: 200, completion_tokens: 20 };
  const prices = { prompt: 2, cached: 1, completion: 4 };

  it('is its price where the budget is of money alone, rounded up', () => {
    const budget = { tokens: null, cost: 1, prices: { ...prices, flex: 0.3 } };
    expect(billedFor(of('flex'), reserved, budget)).toEqual({ prompt_tokens: 24, completion_tokens: 3 });
    expect(billedFor(of('online'), reserved, budget)).toEqual({ prompt_tokens: 80, completion_tokens: 10 });
    const half = { tokens: null, cost: 1, prices };
    expect(billedFor(of('flex'), reserved, half)).toEqual({ prompt_tokens: 40, completion_tokens: 5 });
  });

  it('is all of its tokens where the budget has tokens, and nothing where there was no capacity', () => {
    const budget = { tokens: 1_000, cost: 1, prices };
    expect(billedFor(of('flex'), reserved, budget)).toMatchObject({
      prompt_tokens: 100,
      completion_tokens: 10,
    });
    const lack: Verdict = { kind: 'no_capacity', problem: { code: 'no_capacity', message: '' } };
    expect(billedFor(lack, reserved, budget)).toEqual({ prompt_tokens: 0, completion_tokens: 0 });
  });

  it('is the price of our own count where the service counts none, and never more than was reserved', () => {
    const budget = { tokens: null, cost: 1, prices };
    const guessed = (completion_tokens: number): Verdict => ({
      ...of('flex'),
      ...{ oddUsage: 'guessed', mostUsage: { prompt_tokens: 120, completion_tokens } },
    });
    expect(billedFor(guessed(16), reserved, budget)).toEqual({ prompt_tokens: 60, completion_tokens: 8 });
    expect(billedFor(guessed(Number.POSITIVE_INFINITY), reserved, budget)).toEqual({
      prompt_tokens: 60,
      completion_tokens: 20,
    });
    const byEndpoint = { west: prices, east: { prompt: 20, completion: 40 } };
    const several = { ...budget, prices: { prompt: 20, completion: 40 }, byEndpoint };
    const atWest = { prompt_tokens: 20, completion_tokens: 2 };
    expect(billedFor(guessed(Number.POSITIVE_INFINITY), atWest, several, 'west')).toEqual({
      prompt_tokens: 6,
      completion_tokens: 2,
    });
  });
});
