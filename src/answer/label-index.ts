import type { Mention } from './mention.js';
import { composed, fits } from './text.js';

/**
 * Finds labels in texts, in time independent of their number (fault 74). Names are sorted, so those with a
 * common beginning are adjacent, and each character of the text narrows the range by binary search.
 */

/** A label, then its synonyms. */
export type Names = readonly string[];

export interface LabelMention extends Mention {
  readonly label: number;
}

export interface NamePlace {
  readonly label: number;
  readonly name: number;
}

/**
 * The first name that is empty (`as` is null) or could also mean another label (`as`); null for no clash. A
 * label may repeat one of its own names.
 */
export function firstClash(
  labels: readonly Names[],
): { readonly place: NamePlace; readonly as: NamePlace | null } | null {
  const places = new Map<string, NamePlace>();
  for (const [label, names] of labels.entries()) {
    for (const [name, text] of names.entries()) {
      const place = { label, name };
      const form = formOf(text);
      const as = form === '' ? null : places.get(form);
      if (as === null || (as !== undefined && as.label !== label)) return { place, as };
      places.set(form, place);
    }
  }
  return null;
}

/** Equivalent to a space between two letters or digits. */
const JOINT = /(?<=[\p{L}\p{N}])[\s_-]+(?=[\p{L}\p{N}])/gu;
/** Replaces a joint in compared forms; no text has this character. */
const JOINED = 0xffff;

// A hyphen or apostrophe joins words ("non-positive"), a point or comma joins digits ("4.5" is neither 4 nor
// 5).
const BEGINS = /(?<![\p{L}\p{N}\p{M}]|[\p{L}\p{N}]['’-]|\p{N}[.,])(?<!-(?=\p{N}))/uy;
const ENDS = /(?!['’-]?[\p{L}\p{N}\p{M}]|[.,]\p{N})/uy;

export class LabelIndex {
  readonly #named = new Map<string, { readonly label: number; readonly length: number }>();
  /** Sorted by code units, as they are compared. */
  readonly #forms: readonly string[];
  readonly #firsts: ReadonlySet<string>;

  /** @param labels without a {@link firstClash} */
  constructor(labels: readonly Names[]) {
    for (const [label, names] of labels.entries()) {
      for (const name of names) this.#named.set(formOf(name), { label, length: plainly(name).length });
    }
    this.#forms = [...this.#named.keys()].sort();
    this.#firsts = new Set(this.#forms.map((form) => form.charAt(0)));
  }

  /** Index of the label; case and joints do not matter. */
  labelOf(name: string): number | undefined {
    return this.#named.get(formOf(name))?.label;
  }

  has(name: string): boolean {
    return this.labelOf(name) !== undefined;
  }

  /**
   * The labels named as whole words, in text order, without overlaps: the longest at each place.
   * @param text in NFC
   */
  *mentions(text: string): Generator<LabelMention> {
    const folded = folding(text);
    for (let at = 0; at < text.length; at++) {
      if (!this.#firsts.has(folded.charAt(at)) || !fits(BEGINS, text, at)) continue;
      const mention = this.#longestAt(text, folded, at);
      if (mention === null) continue;
      yield mention;
      at = mention.end - 1;
    }
  }

  #longestAt(text: string, folded: string, start: number): LabelMention | null {
    const forms = this.#forms;
    let best: LabelMention | null = null;
    let longest = 0;
    // A space may be a joint or part of the label itself, so both ways are tried.
    const ways: MatchedRange[] = [{ from: 0, to: forms.length, matched: 0, at: start }];
    for (let way = ways.pop(); way !== undefined; way = ways.pop()) {
      let { from, to, matched, at } = way;
      for (; from < to; matched++, at++) {
        const first = forms[from] ?? '';
        if (first.length === matched) {
          const { label, length } = this.#named.get(first) ?? { label: 0, length: 0 };
          if (length > longest && fits(ENDS, text, at)) {
            best = { label, start, end: at };
            longest = length;
          }
        }
        if (isJoining(text, at)) {
          const joined = narrowed(forms, from, to, matched, JOINED);
          if (joined.from < joined.to) ways.push({ ...joined, matched: matched + 1, at: jointEnd(text, at) });
        }
        ({ from, to } = narrowed(forms, from, to, matched, folded.charCodeAt(at)));
      }
    }
    return best;
  }
}

interface MatchedRange {
  readonly from: number;
  readonly to: number;
  readonly matched: number;
  readonly at: number;
}

/** The forms of the range whose code unit at `place` is `code`. */
function narrowed(
  forms: readonly string[],
  from: number,
  to: number,
  place: number,
  code: number,
): { from: number; to: number } {
  if (to - from === 1) return forms[from]?.charCodeAt(place) === code ? { from, to } : NO_FORMS;
  const first = firstFrom(forms, from, to, place, code);
  return { from: first, to: firstFrom(forms, first, to, place, code + 1) };
}

const NO_FORMS = { from: 0, to: 0 };

/** The first form whose code unit at `place` is at least `code`; forms that end there come before. */
function firstFrom(forms: readonly string[], from: number, to: number, place: number, code: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const there = forms[middle]?.charCodeAt(place) ?? 0;
    // Past the end of a form the code is NaN, which is above nothing.
    if (there >= code) high = middle;
    else low = middle + 1;
  }
  return low;
}

function jointEnd(text: string, start: number): number {
  let end = start;
  while (isJoining(text, end)) end++;
  return end;
}

const JOINING = /[\s_-]/;

/** Tests the code first: most characters are letters, and a pattern is slower. */
function isJoining(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return (code <= 0x20 || code === 0x2d || code === 0x5f || code >= 0xa0) && JOINING.test(text.charAt(at));
}

const plainly = (name: string): string => composed(name).trim();

const formOf = (name: string): string => folding(plainly(name)).replace(JOINT, String.fromCharCode(JOINED));

const NOT_ASCII = /[^\0-\x7f]/;

/** Folds case like the pattern flags `iu`; every character keeps its place. */
function folding(text: string): string {
  if (!NOT_ASCII.test(text)) return text.toLowerCase();
  let folded = '';
  for (const char of text) {
    const upper = char.toUpperCase();
    const lower = (upper.length === char.length ? upper : char).toLowerCase();
    folded += lower.length === char.length ? lower : char;
  }
  return folded;
}
