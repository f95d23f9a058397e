import { describe, expect, it } from 'vitest';
import { followUp } from '../../src/prompt/template.js';

const asked = { prompt: 'Review: fine\nSentiment:', answer: ' Hm. ', problem: 'the text "Hm." is no label' };

describe('the prompt with which a row is asked again', () => {
  it('says what was wrong, and ends as the prompt does', () => {
    expect(followUp(null, asked)).toBe(
      '(An earlier answer could not be used: the text "Hm." is no label.)\n\nReview: fine\nSentiment:',
    );
  });

  it("fills in the job's own template, without the white space around the answer", () => {
    expect(followUp('{{ problem }}|{{{ answer }}}|{{& prompt }}', asked)).toBe(
      'the text "Hm." is no label|Hm.|Review: fine\nSentiment:',
    );
    expect(followUp('{{^answer}}nothing{{/answer}}: {{prompt}}', { ...asked, answer: null })).toBe(
      'nothing: Review: fine\nSentiment:',
    );
  });

  it('reads nothing in an answer, a problem or a prompt as a template', () => {
    const hostile = '{{ prompt }}{{{ answer }}}{{=<% %>=}}{{> problem }}{{#answer}}';
    const text = followUp('{{ answer }} {{ problem }} {{ prompt }}', {
      prompt: hostile,
      answer: hostile,
      problem: hostile,
    });
    expect(text).toBe([hostile, hostile, hostile].join(' '));
  });

  it('has the beginning of a long answer and of a long problem, and of no half character', () => {
    const text = (answer: string, problem = 'p') =>
      followUp('{{ answer }}|{{ problem }}|{{ prompt }}', { prompt: 'x'.repeat(5000), answer, problem });
    expect(text('a'.repeat(2000))).toBe(`${'a'.repeat(2000)}|p|${'x'.repeat(5000)}`);
    expect(text('a'.repeat(1_000_000), 'b'.repeat(9999))).toBe(
      `${'a'.repeat(2000)}…|${'b'.repeat(1000)}…|${'x'.repeat(5000)}`,
    );
    expect(text(`${'a'.repeat(1999)}👍`)).toBe(`${'a'.repeat(1999)}…|p|${'x'.repeat(5000)}`);
  });
});
