import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { API_VERSIONS } from '../../src/service/catalogue.js';
import { Workplace } from '../support/promptmill.js';

/** One row that passes, one whose prompt is blocked, one whose completion is blocked. */
const ROWS = [
  'Classify the sentiment of the review as positive, negative or neutral. Review: Lovely lamp. Sentiment:',
  'Tell me how to kill someone',
  'Describe a fight in graphic detail',
];

const SIDES = ['prompt', 'completion'] as const;
const CATEGORIES = ['hate', 'self_harm', 'sexual', 'violence'] as const;

/** The filter columns of the CSV. */
const FILTERED = SIDES.map((side) => `${side}_filtered`);
const VERDICTS = SIDES.flatMap((side) =>
  CATEGORIES.flatMap((category) => [`${side}_${category}_filtered`, `${side}_${category}_severity`]),
);

/** The verdict columns of one side, where nothing was found but violence. */
const columns = (side: (typeof SIDES)[number], violence: string) =>
  Object.fromEntries(
    CATEGORIES.flatMap((category) => {
      const severity = category === 'violence' ? violence : 'safe';
      return [
        [`${side}_${category}_filtered`, String(severity === 'medium')],
        [`${side}_${category}_severity`, severity],
      ];
    }),
  );

/** The same in JSONL. */
const results = (violence: string) =>
  Object.fromEntries(
    CATEGORIES.map((category) => {
      const severity = category === 'violence' ? violence : 'safe';
      return [category, { filtered: severity === 'medium', severity }];
    }),
  );

describe('a run of each completions model with its API version', () => {
  const state = new Workplace();
  let emulator: Emulator;
  let work: Workplace;
  beforeAll(async () => {
    emulator = await startEmulator();
  });
  afterAll(async () => {
    await emulator.close();
    state.remove();
  });
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(() => work.remove());

  /** Runs the rows and gives the summary's share of it. */
  async function run(deployment: string, version: string, output: string) {
    work.write('rows.csv', `text\n${ROWS.join('\n').replaceAll(/^.*,.*$/gm, '"$&"')}\n`);
    const job = work.job({
      service: { deployment, api_version: version },
      input: { path: 'rows.csv' },
      prompt: '{{ text }}',
      output: { path: output },
    });
    const { code, stderr } = await work.call(['run', job], {
      PROMPTMILL_BASE_URL: emulator.url,
      PROMPTMILL_API_KEY: emulator.keys[0],
      PROMPTMILL_STATE_DIR: state.folder,
    });
    expect(code, stderr).toBe(0);
    return work.json(output.replace(/\.\w+$/, '.summary.json'));
  }

  const jsonl = () => work.lines('out.jsonl');

  it('covers every version that is documented', () => {
    expect([...API_VERSIONS.keys()].sort()).toEqual(['2022-12-01', '2023-09-15-preview']);
  });

  describe('lm-35-turbo-instruct with 2023-09-15-preview', () => {
    const one = ['lm-35-turbo-instruct', '2023-09-15-preview'] as const;
    const summary = {
      rows: { total: 3, completed: 1, filtered: 2, failed: 0, skipped: 0 },
      errors: { content_filter: 2 },
      filters: {
        prompt: { hate: { safe: 3 }, violence: { safe: 2, medium: 1, filtered: 1 } },
        // Of the blocked prompt there is no completion to judge.
        completion: { hate: { safe: 2 }, violence: { safe: 1, medium: 1, filtered: 1 } },
      },
    };

    it('fills the filter columns of a CSV, with severities where a filter blocked', async () => {
      expect(await run(...one, 'out.csv')).toMatchObject(summary);
      const [passed, prompt, completion] = work.records('out.csv');
      expect(passed).toMatchObject({
        status: 'completed',
        model: 'lm-35-turbo-instruct',
        prompt_filtered: 'false',
        completion_filtered: 'false',
        ...columns('prompt', 'safe'),
        ...columns('completion', 'safe'),
      });
      expect(prompt).toMatchObject({
        status: 'filtered',
        text: '',
        total_tokens: '',
        prompt_filtered: 'true',
        completion_filtered: '',
        ...columns('prompt', 'medium'),
        completion_violence_filtered: '',
        completion_violence_severity: '',
        error_code: 'content_filter',
      });
      expect(completion).toMatchObject({
        status: 'filtered',
        finish_reason: 'content_filter',
        prompt_filtered: 'false',
        completion_filtered: 'true',
        ...columns('prompt', 'safe'),
        ...columns('completion', 'medium'),
      });
      expect(Number(completion?.['total_tokens'])).toBeGreaterThan(0);
    });

    it('keeps the categories of both sides in JSONL', async () => {
      expect(await run(...one, 'out.jsonl')).toMatchObject(summary);
      expect(jsonl().map(({ filters }) => filters)).toEqual([
        { prompt: results('safe'), completion: results('safe') },
        { prompt: results('medium'), completion: null },
        { prompt: results('safe'), completion: results('medium') },
      ]);
    });
  });

  describe('text-davinci-003 with 2022-12-01', () => {
    const one = ['text-davinci-003', '2022-12-01'] as const;
    const summary = {
      rows: { total: 3, completed: 1, filtered: 2, failed: 0, skipped: 0 },
      errors: { content_filter: 2 },
    };

    it('leaves the filter columns of a CSV empty, never false', async () => {
      const said = await run(...one, 'out.csv');
      expect(said).toMatchObject(summary);
      expect(said['filters']).toEqual({ prompt: {}, completion: {} });
      const records = work.records('out.csv');
      expect(records.length).toBe(3);
      for (const record of records) {
        expect(record['model']).toBe(record['prompt_filtered'] === 'true' ? '' : 'text-davinci-003');
        for (const column of VERDICTS) expect(record[column], column).toBe('');
      }
      // That something was blocked shows in the error or the finish reason, also without filter results.
      expect(records.map((record) => FILTERED.map((column) => record[column]))).toEqual([
        ['', ''],
        ['true', ''],
        ['', 'true'],
      ]);
    });

    it('has no filter results in JSONL', async () => {
      const said = await run(...one, 'out.jsonl');
      expect(said).toMatchObject(summary);
      expect(said['filters']).toEqual({ prompt: {}, completion: {} });
      const records = jsonl();
      expect(records.map(({ status }) => status)).toEqual(['completed', 'filtered', 'filtered']);
      for (const { filters } of records) expect(filters).toEqual({ prompt: null, completion: null });
    });
  });
});
