import type { AnswerSpec } from '../../core/answer-spec.js';

/** A prompt as a model would read it. */
export interface ReadPrompt {
  readonly prompt: string;
  /** The answer continues the text, as a completion does; in a conversation it stands by itself. */
  readonly isContinued: boolean;
  readonly spec: AnswerSpec;
  readonly instruction: string;
  /** The text to classify, extract from or summarise. */
  readonly subject: string;
  /** The line that the answer continues, such as `Sentiment:`, without its colon; `''` for none. */
  readonly cue: string;
}

/** Characters; 4,097 tokens of English are about 16,000. */
const LONGEST_READ = 24_000;

const CUE = /\n[^\S\n]*([^:\n]{1,60}):[\s"{[]*$/;

/** What precedes the text: its caption, else the first paragraph, else the first line. */
const BEFORE_TEXT = [
  /^\W{0,5}(?:text|message|review|e?mail|comment|feedback|content|post|article|complaint|ticket|tweet|document)[\w #()]{0,15}:/im,
  /\n[ \t]*\n/,
  /\n/,
];

/** The longest integer scale answered like labels, with a probability for each step. */
const LONGEST_SCALE = 20;

/**
 * Reads a prompt. One longer than a context window of prose is read at its beginning and end only.
 * @param told what the job reads from its answers; text when the job is unknown, and then the prompt itself
 * decides
 */
export function readPrompt(prompt: string, told: AnswerSpec, isContinued = true): ReadPrompt {
  const half = LONGEST_READ / 2;
  const whole = prompt.length <= LONGEST_READ ? prompt : prompt.slice(0, half) + prompt.slice(-half);
  const cue = CUE.exec(whole);
  const body = whole.slice(0, cue?.index);
  const before = BEFORE_TEXT.map((pattern) => pattern.exec(body)).find((found) => found !== null);
  const begin = before ? before.index + before[0].length : 0;
  const instruction = body.slice(0, before?.index) || body;
  return {
    prompt,
    isContinued,
    spec: told.kind === 'text' ? recognised(instruction) : asScale(told),
    instruction,
    subject: body
      .slice(begin)
      .trim()
      .replace(/^(["'`]{1,3})([\s\S]*)\1$/, '$2'),
    cue: cue?.[1]?.trim() ?? '',
  };
}

function asScale(spec: AnswerSpec): AnswerSpec {
  if (spec.kind !== 'number') return spec;
  const { min, max, integer } = spec;
  if (!integer || min === undefined || max === undefined || max - min >= LONGEST_SCALE) return spec;
  const [least, most] = [Math.ceil(min), Math.floor(max)];
  return {
    kind: 'labels',
    labels: Array.from({ length: most - least + 1 }, (_, step) => String(least + step)),
  };
}

const WORD = String.raw`(?<![\p{L}\p{N}])[\p{L}\p{N}][\p{L}\p{N}'’_/-]{0,30}`;
const NAME = `${WORD}(?: (?!or )${WORD}){0,2}`;

/** `one of A, B, C`, or `A, B or C` at the end of a sentence. Bounded lists keep the search linear. */
const LABELS = new RegExp(
  String.raw`(?<=\bone of(?: the\w* [\w ]{1,20}:|:)? )${NAME}(?:, (?:or )?${NAME})+` +
    `|(?:(?:not|very|strongly) )?${WORD}(?:, ${NAME}){0,60},? or ${NAME}(?=[ ]?(?:[.:;?!)]|$))`,
  'imu',
);

/** `JSON with the keys a, b and c`. */
const KEYS =
  /\bJSON\b[^\n]{0,100}?\b(?:keys?|fields?)\b:? ((?:(?:, (?:and )?| and )?["'`]?[\w-]{1,40}["'`]?){1,60})/i;

const LINES = /:[^\S\n]*\n((?:[^\n]+(?:\n|$)){2,})/;

/** A line that defines a label or a key: `name - meaning`, `- "name": meaning`, `1. name (meaning)`. */
const DEFINITION =
  /^[^\p{L}\p{N}\n]{0,9}(?:\d{1,2}[.)] )?["'`*]{0,3}([^\n:=(]{1,60}?)["'`*]{0,3}(?:\s[-–—]\s|[:=(])(.*)$/gmu;

export const definitionsIn = (text: string): [name: string, meaning: string][] =>
  [...text.matchAll(DEFINITION)].map(([, name = '', meaning = '']) => [name, meaning]);

function recognised(instruction: string): AnswerSpec {
  const defined = definitionsIn(LINES.exec(instruction)?.[1] ?? '');
  const keys = KEYS.exec(instruction)?.[1]?.match(/[\w-]+(?=["'`]|,| and |$)/g) ?? [];
  if (keys.length > 0 || (defined.length > 1 && /\bJSON\b/i.test(instruction))) {
    const members = keys.length > 0 ? keys.map((key): [string, string] => [key, '']) : defined;
    const properties = members.map(([key, meaning]): [string, { enum?: string[] }] => {
      const values = labelsIn(meaning);
      return [key, values.length > 0 ? { enum: values } : {}];
    });
    return { kind: 'json', schema: { properties: Object.fromEntries(properties) } };
  }
  const labels = defined.length > 1 ? defined.map(([name]) => name) : labelsIn(instruction);
  return labels.length > 0 ? { kind: 'labels', labels } : { kind: 'text' };
}

function labelsIn(text: string): string[] {
  const [list] = LABELS.exec(text.replace(/["'`“”*]/g, '')) ?? [];
  return list?.split(/,? or |, /i) ?? [];
}

export function wordsOf(text: string): string[] {
  return (
    text
      .toLowerCase()
      .replaceAll('’', "'")
      .match(/[\p{L}\p{N}]+(?:'\p{L}+)*/gu) ?? []
  );
}

const SUMMARY_WORDS = 30;

export function summaryOf(text: string): string {
  const plain = text.replace(/\s+/g, ' ').trim();
  const words = (/^.{15,}?[.!?](?=\s|$)/.exec(plain)?.[0] ?? plain).split(' ');
  const short = words.slice(0, SUMMARY_WORDS).join(' ');
  return words.length > SUMMARY_WORDS ? `${short}…` : short.replace(/(?<![.!?])$/, '.');
}
