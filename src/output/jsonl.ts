import { memberTexts, parseExact } from '../core/json.js';
import type { Confidence, Problem } from '../core/model.js';
import { jsonMembers } from './json-members.js';
import {
  inputNames,
  type OutputFormat,
  type RecordFormat,
  type RecordLayout,
  type RecordValues,
} from './record.js';
import {
  answerFacts,
  columnOf,
  PARTS,
  type Part,
  REVIEWED,
  type RecordFacts,
  recordError,
  recordFacts,
} from './result-columns.js';

export const jsonl: OutputFormat = {
  name: 'jsonl',
  endings: ['.jsonl', '.ndjson'],
  hasQuotes: false,
  hasHeader: false,
  records: jsonlRecords,
  values: () => recordValues,
  value: parseExact,
};

/** The member of a result line that is the record (`batch.ts`). No record has a member of this name. */
export const RECORD = 'promptmill';

function recordValues(line: Buffer): RecordValues {
  const whole = jsonMembers(line);
  const record = whole.placeOf(RECORD);
  if (record === null) return whole;
  const { names, placeOf } = jsonMembers(line.subarray(record.start, record.end));
  return {
    names,
    placeOf(name) {
      const place = placeOf(name);
      return place && { start: record.start + place.start, end: record.start + place.end };
    },
  };
}

/**
 * One object a row, with raw text and every filter category. The text is built by hand: an object would move
 * keys such as `7` to the front, lose `__proto__` (fault 9), and round big numbers (fault 10).
 */
function jsonlRecords(layout: RecordLayout): RecordFormat {
  const parts = PARTS.filter((part) => layout.parts.has(part));
  const members = parts.map((part) => memberOf(part, layout));
  const withLogprobs = [...members, memberOf('logprobs', layout)];
  return {
    header: '',
    reviewed: parts.filter((part) => REVIEWED.has(part)),
    names: parts,
    parts: layout.parts,
    inputs: inputNames(layout.columns),
    format(row, outcome, answer) {
      const facts = recordFacts(row, outcome, answer);
      const isMore =
        layout.isWhole && facts.completion?.logprobs !== undefined && !layout.parts.has('logprobs');
      const all = isMore ? withLogprobs : members;
      return `{${all.map(({ part, json }) => `"${part}":${json(facts)}`).join(',')}}\n`;
    },
    values(names, answer) {
      const facts = answerFacts(answer);
      const changed = members.filter(({ part }) => names.has(part));
      return new Map(changed.map(({ part, json }) => [part, json(facts)]));
    },
  };
}

interface Member {
  readonly part: Part;
  readonly json: (facts: RecordFacts) => string;
}

function memberOf(part: Part, layout: RecordLayout): Member {
  const { fields } = layout;
  const probabilities = layout.answer.confidenceOf ?? [];
  switch (part) {
    case 'input':
      return { part, json: (facts) => inputJson(facts, fields) };
    case 'answer':
      return { part, json: (facts) => answerJson(facts, layout) };
    case 'answer_probabilities':
      return { part, json: ({ answer }) => probabilitiesJson(answer?.confidence ?? null, probabilities) };
    case 'filters':
      return {
        part,
        json: ({ filters: { prompt, completion } }) => JSON.stringify({ prompt, completion }),
      };
    case 'error':
      return { part, json: (facts) => errorJson(recordError(facts)) };
    case 'text':
    case 'usage':
      return { part, json: ({ completion }) => JSON.stringify(completion?.[part] ?? null) };
    default: {
      const { value } = columnOf(part);
      return { part, json: (facts) => JSON.stringify(value(facts)) };
    }
  }
}

const errorJson = (error: Problem | null): string =>
  JSON.stringify(error && { code: error.code, message: error.message });

/** A row that is no JSON object (fault 11) stays the text of its line. */
function inputJson({ row }: RecordFacts, fields: readonly string[] | null): string {
  const { source } = row;
  if (source === undefined) {
    return object(
      [...row.fields].map(([name, value]) => [name, JSON.stringify(value)]),
      fields,
    );
  }
  if (row.problem !== undefined) return JSON.stringify(source);
  // A line break in JSON is white space; in the output it would end the record.
  return fields === null ? source.trim().replaceAll(/[\r\n]/g, ' ') : object(memberTexts(source), fields);
}

function probabilitiesJson(confidence: Confidence | null, labels: readonly string[]): string {
  if (confidence === null) return 'null';
  const { probabilities } = confidence;
  return object(
    labels.map((label) => [label, String(probabilities.get(label) ?? 0)]),
    null,
  );
}

function answerJson({ answer }: RecordFacts, { answer: { columns, shape } }: RecordLayout): string {
  if (answer === null || answer.problem !== null) return 'null';
  const values = answer.values.map((value) => JSON.stringify(value));
  return shape === 'object'
    ? object(
        columns.map((name, i) => [name, values[i] ?? 'null']),
        null,
      )
    : (values[0] ?? 'null');
}

/** @param only names of the members to keep, in this order; `null` keeps all */
function object(members: Iterable<readonly [string, string]>, only: readonly string[] | null): string {
  const kept = only === null ? [...members] : selected(new Map(members), only);
  return `{${kept.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}

function selected(members: ReadonlyMap<string, string>, names: readonly string[]): [string, string][] {
  return names.flatMap((name) => {
    const json = members.get(name);
    return json === undefined ? [] : [[name, json]];
  });
}
