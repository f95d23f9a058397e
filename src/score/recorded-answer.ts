import type { AnswerSpec } from '../answer/answer-spec.js';
import { type Gold, goldCell } from '../answer/gold.js';
import { exactOr, isObject, valueText } from '../json.js';
import type { Answer, Confidence, Json, Row } from '../model.js';
import { inert, uninert } from '../output/formula.js';
import { isUnreadable, type RecordOptions } from '../output/read-back.js';
import { recordLayout } from '../output/record.js';
import { probabilityColumns } from '../output/result-columns.js';

/** Reads answers back out of the records of an output. */
interface RecordedAnswers {
  /** What a record lacks the columns for. */
  readonly lacks: (row: Row) => Lacking;
  /** Whether records say how sure the model is. */
  readonly hasConfidence: (row: Row) => boolean;
  /** How the row ended, in the word that the record has. */
  readonly statusOf: (row: Row) => string;
  /** Whether the row could not be read; then it has no right answer either. */
  readonly isUnreadable: (row: Row) => boolean;
  /**
   * The answer as the record has it.
   * @param gold a cell of a CSV does not say whether it is a text or a number: it is taken for what it is compared with
   */
  readonly answerOf: (row: Row, gold: Gold) => Answer;
  /**
   * What the model said, which its confidence is about: read from the text of the record, because the answer may be that of a
   * person, or left out. It is the answer of the record where the record has no text, or the job asks for no confidence.
   */
  readonly saidOf: (row: Row, recorded: Answer) => Answer;
}

interface Lacking {
  /** Columns without which there are no scores. */
  readonly needed: readonly string[];
  /** Scores that are left out, each with the columns that it would take. */
  readonly leftOut: readonly string[];
}

export function recordedAnswers(spec: AnswerSpec, options: RecordOptions): RecordedAnswers {
  const { answer: reader, formulas } = options;
  const read = goldCell(spec);
  const layout = recordLayout({ ...options, inputColumns: [], select: undefined });
  const answers = layout.columns.filter(({ part }) => part === 'answer').map(({ name }) => name);
  const { confidenceOf: labels = [] } = reader;
  const asksConfidence = reader.confidenceOf !== undefined;
  const probabilities = probabilityColumns(labels).map(({ name }) => name);

  const header = (name: string): string => (formulas === 'protect' ? inert(name) : name);
  const has = (row: Row, name: string): boolean =>
    row.fields.has(row.source === undefined ? header(name) : name);
  /** A part of a JSONL record, or a cell of a CSV record; an empty cell is null. */
  const partOf = (row: Row, name: string): Json => {
    if (row.source !== undefined) return row.fields.get(name) ?? null;
    const cell = valueText(row.fields.get(header(name)));
    return (formulas === 'protect' ? uninert(cell) : cell) || null;
  };

  function lacks(row: Row): Lacking {
    const isCsv = row.source === undefined;
    const absent = (names: readonly string[]): string[] => names.filter((name) => !has(row, name));
    const needed = [
      'status',
      ...(isCsv ? answers : ['answer']),
      ...(isCsv && spec.kind === 'json' ? ['error_code'] : []),
      // A run that abstains has them whatever output.columns says.
      ...(reader.abstains ? ['abstained', 'text'] : []),
    ];
    const leftOut = (what: string, names: readonly string[]): string[] => {
      const lacking = absent(names);
      return lacking.length === 0 ? [] : [`${what}: the records have no ${lacking.join(', ')}`];
    };
    return {
      needed: absent(needed),
      leftOut: !asksConfidence
        ? []
        : [
            ...leftOut('no calibration error and no abstention', ['confidence']),
            // Of numbers that voted no record has the probabilities.
            ...(labels.length === 0
              ? ['no Brier score: the records have no probabilities of numbers']
              : leftOut('no Brier score', isCsv ? probabilities : ['answer_probabilities'])),
          ],
    };
  }

  function valuesOf(row: Row, gold: Gold): Json[] {
    if (gold.kind === 'json') return jsonOf(row, gold);
    const value = partOf(row, answers[0] ?? 'answer');
    const known = value === null ? null : read(value);
    // People may have put a text there that is no answer of the job.
    if (known === null || typeof known === 'string') return [value];
    return [known.kind === 'label' ? known.label : known.kind === 'labels' ? known.labels : value];
  }

  function jsonOf(row: Row, gold: Extract<Gold, { kind: 'json' }>): Json[] {
    if (row.source !== undefined) {
      const answer = row.fields.get('answer') ?? null;
      if (reader.shape !== 'object') return [answer];
      return reader.columns.map((name) =>
        isObject(answer) && Object.hasOwn(answer, name) ? (answer[name] ?? null) : null,
      );
    }
    return answers.map((name, place) => {
      const right = gold.values.find((value) => value.place === place)?.right;
      const value = partOf(row, name);
      if (value === null) return right === '' ? '' : null;
      const text = valueText(value);
      return typeof right === 'string' ? value : exactOr(text, text);
    });
  }

  function confidenceOf(row: Row): Confidence | null {
    const value = partOf(row, 'confidence');
    if (value === null) return null;
    const listed = partOf(row, 'answer_probabilities');
    const named = labels.map((label, i): [string, Json] => [
      label,
      isObject(listed) ? (listed[label] ?? null) : partOf(row, probabilities[i] ?? ''),
    ]);
    const known = named.flatMap(([label, each]): [string, number][] =>
      each === null ? [] : [[label, Number(each)]],
    );
    return { value: Number(value), probabilities: new Map(known) };
  }

  function answerOf(row: Row, gold: Gold): Answer {
    const values = valuesOf(row, gold);
    const isEmpty = values.every((value) => value === null);
    // In a CSV of a job that does not abstain, a column of this name is the input's.
    const canAbstain = reader.abstains === true || row.source !== undefined;
    const abstained = isEmpty && canAbstain && String(partOf(row, 'abstained')) === 'true';
    const isInvalid = isEmpty && !abstained && (spec.kind !== 'json' || isFaulty(row));
    return {
      values,
      counted: [],
      fault: isInvalid ? NO_ANSWER : null,
      confidence: isInvalid ? null : confidenceOf(row),
      abstained,
    };
  }

  function saidOf(row: Row, recorded: Answer): Answer {
    if (!asksConfidence || !has(row, 'text')) return recorded;
    const said = reader.read({ text: valueText(partOf(row, 'text')), finish_reason: null });
    return { ...said, confidence: said.fault === null ? confidenceOf(row) : null };
  }

  function errorOf(row: Row): string {
    const error = row.fields.get('error');
    const code = row.source !== undefined && isObject(error) ? error['code'] : partOf(row, 'error_code');
    return valueText(code);
  }

  /** An object may have nothing in it and still be an answer. */
  const isFaulty = (row: Row): boolean =>
    row.source === undefined
      ? errorOf(row).startsWith('answer_')
      : (row.fields.get('answer') ?? null) === null;

  return {
    lacks,
    hasConfidence: (row) => asksConfidence && has(row, 'confidence'),
    statusOf: (row) => valueText(partOf(row, 'status')),
    isUnreadable: (row) => isUnreadable(errorOf(row)),
    answerOf,
    saidOf,
  };
}

const NO_ANSWER = { code: 'answer_invalid', message: '' };
