import { GoldCounter } from '../account/gold-tally.js';
import type { Share } from '../account/score.js';
import { type Scores, scoresOf } from '../account/scores.js';
import { type Gold, goldColumns, goldText, saysRight } from '../answer/gold.js';
import { UsageError } from '../core/errors.js';
import type { Answer } from '../core/model.js';
import type { OutputRecord } from '../output/reader.js';
import type { ComparedOutput } from './compared-output.js';
import { BadCells, goldSources } from './gold-source.js';
import type { Match } from './matching.js';
import { type Paired, paired } from './paired.js';
import { noRow } from './score-output.js';

/** On the rows with gold that are completed in both. Shares are from 0 to 1. */
export interface Verdict extends Paired {
  readonly accuracy_a: Share | null;
  readonly accuracy_b: Share | null;
  /** `null` without labels. */
  readonly macro_f1_a: number | null;
  readonly macro_f1_b: number | null;
  /** Each counts as wrong. */
  readonly invalid_a: number;
  readonly invalid_b: number;
  /** Rows with gold that `a` or `b` has filtered, failed or skipped: they do not count. */
  readonly unanswered: number;
}

interface Judged {
  readonly gold: string;
  /** The answer in `b`, against that in `a`; empty if the row is not completed in both. */
  readonly now: '' | 'better' | 'worse' | 'right too' | 'wrong too';
}

export class Judge {
  readonly #a = new GoldCounter(undefined);
  readonly #b = new GoldCounter(undefined);
  #better = 0;
  #worse = 0;

  /** @param goldOf the right answer of a row, `null` if unknown */
  constructor(
    private readonly goldOf: (match: Match) => Gold | null,
    private readonly atEnd: (verdict: Verdict | null) => readonly string[],
  ) {}

  /** @returns `null` for a row without gold */
  add(match: Match): Judged | null {
    const gold = this.goldOf(match);
    if (gold === null) return null;
    const { a, b } = match;
    const [before, after] = [answerOf(a, gold), answerOf(b, gold)];
    if (before === null || after === null) {
      this.#a.add(gold, null, null);
      return { gold: goldText(gold), now: '' };
    }
    this.#a.add(gold, before, null);
    this.#b.add(gold, after, null);
    const [was, is] = [isRight(gold, before), isRight(gold, after)];
    const now = is ? (was ? 'right too' : 'better') : was ? 'worse' : 'wrong too';
    if (now === 'better') this.#better += 1;
    if (now === 'worse') this.#worse += 1;
    return { gold: goldText(gold), now };
  }

  /** Call after the last row. @returns notes @throws UsageError when `--gold` has no right answer */
  end(): readonly string[] {
    return this.atEnd(this.verdict);
  }

  /** `null` if no row has gold. */
  get verdict(): Verdict | null {
    const [a, b] = [scoresAt(this.#a), scoresAt(this.#b)];
    if (a.rows + a.unanswered === 0) return null;
    return {
      ...paired(a.rows, this.#better, this.#worse),
      ...{ accuracy_a: a.accuracy, accuracy_b: b.accuracy, macro_f1_a: a.macro_f1, macro_f1_b: b.macro_f1 },
      ...{ invalid_a: invalidOf(a), invalid_b: invalidOf(b), unanswered: a.unanswered },
    };
  }
}

/**
 * @param named `--gold`. @default the column that `answer.gold` of a job names
 * @returns `null` without right answers
 * @throws UsageError when `--gold` has no right answer
 */
export async function judgeOf(
  a: ComparedOutput,
  b: ComparedOutput,
  named: readonly string[],
): Promise<Judge | null> {
  const [jobA, jobB] = [a.readJob(), b.readJob()];
  const job = [jobB, jobA].find((each) => each !== null && each.gold !== null) ?? null;
  const [column = job?.gold ?? null] = named;
  if (column === null) return null;
  const own = job && goldColumns(job);
  const columns = own?.name === column ? own.columns : [column];
  const hasAll = (one: ComparedOutput): boolean => columns.every((name) => one.has(name));
  const [output, side] = hasAll(b) || !hasAll(a) ? ([b, 'b'] as const) : ([a, 'a'] as const);
  const isAsked = named.length > 0;
  if (!isAsked && !hasAll(output)) return null;
  const [specA, specB] = [a.spec ?? jobA?.answer, b.spec ?? jobB?.answer];
  const spec = specB ?? specA;
  if (spec === undefined || spec.kind === 'text') {
    if (isAsked) throw noAnswers(b.name);
    return null;
  }
  // Properties of JSON are found by their place in one schema.
  const isAlike = specA?.kind === spec.kind && spec.kind !== 'json';
  const gold = (job && goldColumns({ ...job, answer: spec })) ?? undefined;
  a.readAnswersBy({ spec: isAlike ? specA : spec, gold });
  b.readAnswersBy({ spec, gold });
  const [id, bad] = [jobB?.reuse.id ?? jobA?.reuse.id ?? null, new BadCells()];
  const source = await goldSources(named, column, { output: output.name, spec, id, bad });
  return new Judge(
    ({ [side]: record }) => (record.isUnreadable ? null : (source?.goldOf(record) ?? null)),
    (verdict) => {
      // What a job says of its gold may have changed since it ran.
      if (isAsked) bad.end();
      const notes = source?.end() ?? [];
      if (isAsked && verdict === null) throw noRow(output.name, named);
      return notes;
    },
  );
}

const noAnswers = (output: string): UsageError =>
  new UsageError(
    'no_answer',
    `the answers of ${output} cannot be judged: they are free texts, or its summary is missing`,
    'Leave out --gold, or put the summary back beside the output.',
  );

const answerOf = (record: OutputRecord, gold: Gold): Answer | null =>
  record.status === 'completed' ? record.answer(gold) : null;

const isRight = (gold: Gold, answer: Answer): boolean => saysRight(gold, answer) && !answer.abstained;

const scoresAt = (counter: GoldCounter): Scores => scoresOf(counter.toTally());

const invalidOf = ({ rows, answered, abstained }: Scores): number => rows - answered - abstained;
