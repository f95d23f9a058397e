import { describe, expect, it } from 'vitest';
import { assertSame, fingerprint, partValues } from '../../src/resume/fingerprint.js';
import { settingsFor } from './run-files.js';

describe('a job that changed since its run began', () => {
  const refusal = (before: object, now: object): string => {
    const [was, is] = [before, now].map((job) => settingsFor('out.csv', job));
    if (was === undefined || is === undefined) throw new Error('two jobs');
    try {
      const [then, now] = [was, is].map((job) => ({
        fingerprint: fingerprint(job, 'same'),
        values: partValues(job),
      }));
      if (then && now) assertSame(then, now, 'out.csv.run.json');
    } catch (error) {
      return String(error);
    }
    return 'the same';
  };

  it('may have its endpoints in another order', () => {
    const at = (name: string, deployment = name) => ({
      ...{ name, deployment, base_url: 'https://a.example', key: 'A_KEY' },
    });
    const jobOf = (...endpoints: object[]) => ({ service: { endpoints } });
    const before = jobOf(at('west'), at('east'));
    expect(refusal(before, jobOf(at('east'), at('west')))).toBe('the same');
    expect(refusal(before, jobOf(at('east'), at('west', 'other')))).toContain(
      'service.endpoints.west.deployment ("west" then, "other" now)',
    );
  });

  it('is told by what its values were and are', () => {
    expect(refusal({}, {})).toBe('the same');
    const parameters = refusal(
      { parameters: { max_tokens: 5, temperature: 0 } },
      { parameters: { max_tokens: 7, stop: ['\n'] } },
    );
    expect(parameters).toContain(
      'parameters.max_tokens (5 then, 7 now), parameters.temperature (0 then, none now), parameters.stop (none then, ["\\n"] now)',
    );
    expect(refusal({}, { service: { deployment: 'other' } })).toContain(
      'service.deployment ("d" then, "other" now)',
    );
    expect(refusal({}, { answer: { labels: ['a', 'b'] } })).toContain(
      'answer.labels (none then, ["a","b"] now)',
    );
    const labels = { labels: ['a', 'b'] };
    expect(refusal({ answer: labels }, { answer: { ...labels, gold: 'truth' } })).toContain(
      'answer.gold (none then, "truth" now)',
    );
    expect(refusal({}, { input: { path: 'in.csv', dedupe: true } })).toContain(
      'input.dedupe (none then, true now)',
    );
  });

  it('is another when something else is done with answers that do not fit', () => {
    const job = (on_invalid?: object) => ({ answer: { json: {}, ...(on_invalid && { on_invalid }) } });
    expect(refusal(job(), job({ repair: false, ask_again: 0 }))).toBe('the same');
    expect(refusal(job({ repair: true }), job({ ask_again: 2 }))).toMatch(
      /changed: answer\.on_invalid\.repair \(true then, false now\), answer\.on_invalid\.askAgain \(0 then, 2 now\)$/,
    );
  });

  it('has the same labels with synonyms that are left empty, and others with synonyms', () => {
    const list = { answer: { labels: ['a', 'b'] } };
    expect(refusal(list, { answer: { labels: { a: [], b: [] } } })).toBe('the same');
    expect(refusal(list, { answer: { labels: { a: ['c'], b: [] }, multiple: true } })).toContain(
      'answer.synonyms (none then, [["c"],[]] now), answer.multiple (none then, true now)',
    );
  });

  it('shows the first line of a prompt that differs, and no more of it than fits', () => {
    const prompt = 'Classify.\nReview: {{ note }}\nSentiment:';
    expect(refusal({ prompt }, { prompt: prompt.replace('Review', 'Text') })).toContain(
      'prompt, line 2 ("Review: {{ note }}" then, "Text: {{ note }}" now)',
    );
    expect(refusal({ prompt }, { prompt: `${prompt}\nOne word.` })).toContain(
      'prompt, line 4 (none then, "One word." now)',
    );
    const long = 'x'.repeat(50_000);
    expect(refusal({ prompt: long }, { prompt: `${long}y` })).toContain(
      'prompt (behind its first 4000 characters)',
    );
    expect(refusal({ prompt: long }, { prompt: `y${long}` }).length).toBeLessThan(600);
    const escaped = '"\\\n'.repeat(5_000);
    expect(refusal({ prompt: escaped }, { prompt: `${escaped}y` })).toContain('prompt');
  });

  it('has the part of gold only where it names a column', () => {
    const answer = { labels: ['a', 'b'] };
    expect(fingerprint(settingsFor('out.csv', { answer }), 'same')).not.toHaveProperty('answer.gold');
    const gold = settingsFor('out.csv', { answer: { ...answer, gold: 'truth' } });
    expect(fingerprint(gold, 'same')).toHaveProperty('answer.gold');
  });
});
