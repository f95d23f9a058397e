import type { StoredSummary } from '../account/summary.js';
import { changedValues } from '../resume/fingerprint.js';

/** What runs asked and how, as far as both summaries have it. */
export interface Differences {
  /** Of the prompts: lines that only `a` has after `- `, and that only `b` has after `+ `. */
  readonly prompt_changes: readonly string[];
  /** Of the other settings, field by field: values as JSON. */
  readonly setting_changes: readonly { readonly name: string; readonly a: string; readonly b: string }[];
}

/** Compared as the prompt, or none of the answers depends on it. */
const LEFT_OUT = /^(?:prompt|system|messages|output)\b/;

export function differencesOf(a: StoredSummary | null, b: StoredSummary | null): Differences {
  if (a === null || b === null) return { prompt_changes: [], setting_changes: [] };
  const [promptA, promptB] = [a.details.prompt, b.details.prompt];
  const isChanged = promptA !== null && promptB !== null && promptA !== promptB;
  return {
    prompt_changes: isChanged ? textDifference(promptA, promptB) : [],
    setting_changes: changedValues(settingsOf(a), settingsOf(b))
      .filter(([name]) => !LEFT_OUT.test(name))
      .map(([name, was, is]) => ({ name, a: was, b: is })),
  };
}

/** Of the run, and not of a retry after it. */
const settingsOf = ({ details: { state, settings } }: StoredSummary) => state.values ?? settings;

/** Pairs of lines that are looked at; with more, the texts differ as a whole. */
const MOST_PAIRS = 4_000_000;
/** A longer line is taken apart into its sentences. */
const LONG = 80;
/** Equal lines shown beside those that differ. */
const AROUND = 1;

/** `- ` before what only `a` has, `+ ` before what only `b` has, `…` for equal lines far from both. */
export function textDifference(a: string, b: string): string[] {
  const marked = markedLines(linesOf(a), linesOf(b));
  const isNear = (at: number): boolean =>
    marked.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((line) => !line.startsWith(' '));
  return marked.flatMap((line, at) => (isNear(at) ? [line] : at === 0 || isNear(at - 1) ? ['…'] : []));
}

const linesOf = (text: string): string[] =>
  text.split(/\r?\n/).flatMap((line) => (line.length > LONG ? line.split(/(?<=[.!?:;]) /) : [line]));

/** By a longest common subsequence. */
function markedLines(a: readonly string[], b: readonly string[]): string[] {
  if (a.length * b.length > MOST_PAIRS)
    return [...a.map((line) => `- ${line}`), ...b.map((line) => `+ ${line}`)];
  const width = b.length + 1;
  // Longest common subsequence of what is left from line i of `a` and line j of `b`.
  const longest = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const marked: string[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      marked.push(`  ${a[i++]}`);
      j++;
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) marked.push(`- ${a[i++]}`);
    else marked.push(`+ ${b[j++]}`);
  }
  return marked;
}
