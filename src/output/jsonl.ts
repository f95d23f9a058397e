import { memberTexts, parseExact } from '../json.js';
import type { Confidence } from '../model.js';
import { jsonMembers } from './json-members.js';
import { inputNames, type OutputFormat, type RecordFormat, type RecordLayout } from './record.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  answerFacts,
  CONFIDENCE,
  createdAt,
  LOGPROBS,
  ORIGINS,
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
  values: () => jsonMembers,
  value: parseExact,
};

/**
 * One object a row, with raw text and every filter category. The text is built by hand: an object would move
 * keys such as `7` to the front, lose `__proto__` (fault 9), and round big numbers (fault 10).
 */
function jsonlRecords(layout: RecordLayout): RecordFormat {
  const parts = PARTS.filter((part) => layout.parts.has(part));
  const withLogprobs: readonly Part[] = [...parts, 'logprobs'];
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
      const all = isMore ? withLogprobs : parts;
      return `{${all.map((part) => `"${part}":${partJson(part, facts, layout)}`).join(',')}}\n`;
    },
    values(names, answer) {
      const facts = answerFacts(answer);
      const changed = parts.filter((part) => names.has(part));
      return new Map(changed.map((part) => [part, partJson(part, facts, layout)]));
    },
  };
}

function partJson(part: Part, facts: RecordFacts, layout: RecordLayout): string {
  const { row, outcome, completion, filters } = facts;
  switch (part) {
    case 'row':
      return String(row.number);
    case 'input':
      return inputJson(facts, layout.fields);
    case 'answer':
      return answerJson(facts, layout);
    case 'filters':
      return JSON.stringify({ prompt: filters.prompt, completion: filters.completion });
    case 'error': {
      const error = recordError(facts);
      return JSON.stringify(error && { code: error.code, message: error.message });
    }
    case 'status':
      return JSON.stringify(outcome.status);
    case 'text':
    case 'finish_reason':
    case 'usage':
    case 'model':
      return JSON.stringify(completion?.[part] ?? null);
    case 'completion_id':
      return JSON.stringify(completion?.id ?? null);
    case 'created':
      return JSON.stringify(createdAt(facts));
    case 'attempts':
    case 'latency_ms':
      return JSON.stringify(part in outcome && 'attempts' in outcome ? outcome[part] : null);
    case 'copied_from':
    case 'carried_from':
      return JSON.stringify(ORIGINS[part].value(facts));
    case 'answer_source':
      return JSON.stringify(ANSWER_SOURCE.value(facts));
    case 'confidence':
      return JSON.stringify(CONFIDENCE.value(facts));
    case 'answer_probabilities':
      return probabilitiesJson(facts.answer?.confidence ?? null, layout.answer.confidenceOf ?? []);
    case 'abstained':
      return JSON.stringify(ABSTAINED.value(facts));
    case 'logprobs':
      return JSON.stringify(LOGPROBS.value(facts));
  }
}

/** A row that is no JSON object (fault 11) stays the text of its line. */
function inputJson({ row }: RecordFacts, fields: readonly string[] | null): string {
  const { source } = row;
  if (source === undefined) {
    return object(
      [...row.fields].map(([name, value]) => [name, JSON.stringify(value)]),
      fields,
    );
  }
  if (row.fault !== undefined) return JSON.stringify(source);
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
  if (answer === null || answer.fault !== null) return 'null';
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
