import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody } from '../support/scripted-service.js';

/** What a service answers for a row. */
type Said =
  | { readonly text: string; readonly confidence?: number; readonly finish?: string }
  | { readonly error: 'bad' | 'content_filter' };

const sure: Said = { text: ' yes', confidence: 0.9 };
/** Rows at first, in the retry, and by which kind of selection they are called again; null where they are not. */
const ROWS: readonly (readonly [gold: string, first: Said, then: Said])[] = [
  ['yes', sure, { text: ' no', confidence: 0.95 }],
  ['no', { error: 'bad' }, { text: ' yes', confidence: 0.99 }],
  ['', { error: 'bad' }, { error: 'content_filter' }],
  ['no', { error: 'content_filter' }, { text: ' no', confidence: 0.85 }],
  ['yes', { text: ' maybe', finish: 'length' }, { text: ' yes', confidence: 0.99 }],
  ['no', { text: ' maybe' }, { text: ' perhaps' }],
  ['no', { text: ' yes', confidence: 0.6 }, { text: ' no', confidence: 0.9 }],
  ['yes', { text: ' yes', confidence: 0.55 }, { text: ' no', confidence: 0.6 }],
  ['yes', sure, sure],
  ['', { text: ' no', confidence: 0.97 }, { error: 'bad' }],
];
/** All rows but the one that says the same, chosen by what came of them as far as that is possible. */
const CHOSEN = { status: 'failed,filtered', invalid: true, row: '1,7-8,10' };
const UNSURE = { status: 'failed,filtered', invalid: true, abstained: true, row: '1,10' };
const TEXT = { status: 'failed,filtered', row: '1,5-8,10' };

/** What no two runs have alike, and what both times take together. */
const OWN = [
  ...['run', 'output', 'started_at', 'finished_at', 'duration_s', 'rows_per_second', 'latency_ms'],
  ...['usage', 'cost', 'calls', 'retried', 'details', 'error_samples', 'last_run'],
];

describe('the figures of an output whose rows were called again', () => {
  let place: MemoryPlace;
  let work: Workplace;
  let isThen: boolean;
  beforeEach(() => {
    place = new MemoryPlace();
    work = place.work;
    isThen = false;
    const lines = ROWS.map(([gold], i) => `${i + 1},${gold}\n`);
    work.write('in.csv', `id,right\n${lines.join('')}`);
    place.script = ({ prompt }) => {
      const [, first, then] = ROWS[Number(/\d+/.exec(prompt)?.[0]) - 1] ?? ['', sure, sure];
      const said = isThen ? then : first;
      if ('error' in said)
        return { status: 400, json: { error: { code: said.error, message: `no ${prompt}` } } };
      const { text, confidence = 1, finish = 'stop' } = said;
      return { json: completionBody({ text, confidence, finish_reason: finish }) };
    };
  });
  afterEach(() => work.remove());

  const figures = (name: string): Record<string, unknown> =>
    Object.fromEntries(Object.entries(work.json(name)).filter(([field]) => !OWN.includes(field)));

  it.each([
    [
      'labels with a confidence, in CSV',
      'csv',
      { labels: ['yes', 'no'], confidence: 'logprobs', abstain_below: 0.7, gold: 'right' },
    ],
    [
      'labels that are asked for again, in JSONL',
      'jsonl',
      { labels: ['yes', 'no'], on_invalid: { ask_again: 1 } },
    ],
    ['free text, in JSONL', 'jsonl', undefined],
    ['JSON, in CSV', 'csv', { json: { type: 'object', properties: { yes: { type: 'string' } } } }],
  ])('are those of a run that got these answers at once: %s', async (_, format, answer) => {
    const job = (output: string) =>
      work.job(
        {
          input: { path: 'in.csv' },
          prompt: 'row {{ id }}',
          output: {
            path: `${output}.${format}`,
            probabilities: answer !== undefined && 'confidence' in answer,
          },
          ...(answer && { answer: { ...answer, require: { valid: 0 } } }),
        },
        `${output}.yaml`,
      );
    await place.run(job('out'));
    isThen = true;
    const chosen = answer === undefined ? TEXT : 'confidence' in answer ? UNSURE : CHOSEN;
    const retried = await place.retry(`out.${format}`, chosen);
    expect(retried.code, retried.said).toBe(1);
    const sent = Number(Object(work.json('out.summary.json')['calls'])['sent']);

    const mended = { ...figures('out.summary.json'), job: 'oracle', job_file: 'oracle.yaml' };
    await place.run(job('oracle'));
    expect(mended).toEqual(figures('oracle.summary.json'));
    const fresh = work.json('oracle.summary.json');
    expect(sent).toBeGreaterThan(Number(Object(fresh['calls'])['sent']));
    const same = (name: string) => work.read(name).replaceAll(/,\d+,(?=[^,]*,[^,]*$)|"latency_ms":\d+/gm, '');
    if (format === 'jsonl') expect(same(`out.${format}`)).toBe(same(`oracle.${format}`));
  });

  it('name rows that failed at first by their numbers in the output', async () => {
    const answer = { labels: ['yes', 'no'], gold: 'right' };
    const job = work.job({
      input: { path: 'in.csv' },
      prompt: 'row {{ id }}',
      output: { path: 'out.csv' },
      answer,
    });
    await place.run(job);
    isThen = true;
    await place.retry('out.csv');
    const { confusions } = Object(work.json('out.summary.json')['scores']);
    expect(confusions[0]).toEqual({ gold: 'no', answer: 'yes', rows: 2, examples: [2, 7] });
    const { stdout } = await work.call(['score', 'out.csv', '--json']);
    expect(JSON.parse(stdout).scores.confusions).toEqual(confusions);
  });
});
