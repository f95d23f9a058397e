import * as z from 'zod';
import { firstClash, type NamePlace } from '../answer/label-index.js';

const LONGEST_NAME = 500;
const TOO_LONG = `must have at most ${LONGEST_NAME} characters`;
const TOO_FEW = 'must name at least two labels';

const name = z.string().min(1, 'must not be empty').max(LONGEST_NAME, TOO_LONG);

/** Labels as a list, or as a group with the synonyms of each. All names must differ. */
export const labelsSchema = z
  .union(
    [
      z.array(name).min(2, TOO_FEW),
      z
        .record(z.string(), z.array(name).nullable())
        .refine((labels) => Object.keys(labels).length >= 2, TOO_FEW),
    ],
    'must be a list of labels, or a group with the synonyms of each',
  )
  .check(({ value, issues }) => {
    if (issues.length > 0) return;
    const names = labelNames(value);
    const refuse = (place: NamePlace, message: string): void => {
      const key = Array.isArray(value) ? place.label : nameAt(names, { ...place, name: 0 });
      const path = place.name === 0 ? [key] : [key, place.name - 1];
      issues.push({ code: 'custom', path, message, input: nameAt(names, place) });
    };
    const long = names.findIndex(([label]) => label.length > LONGEST_NAME);
    if (long >= 0) return refuse({ label: long, name: 0 }, TOO_LONG);
    const clash = firstClash(names);
    if (clash === null) return;
    const { place, as } = clash;
    if (as === null) return refuse(place, 'must not be empty');
    const differ = 'give names that differ in more than case, white space, "_" and "-"';
    refuse(place, `is the same as ${described(names, as)}: ${differ}`);
  })
  .describe(
    'The answers to choose from, as a list, or as a group with a list of synonyms for each: a text that names a synonym ' +
      'reads as its label. The answer column holds one of the labels, or nothing.',
  );

type Labels = string[] | Record<string, string[] | null>;
type LabelNames = readonly [label: string, ...synonyms: string[]];

export const labelNames = (labels: Labels): LabelNames[] =>
  Array.isArray(labels)
    ? labels.map((label) => [label])
    : Object.entries(labels).map(([label, synonyms]) => [label, ...(synonyms ?? [])]);

const nameAt = (names: readonly LabelNames[], { label, name }: NamePlace): string =>
  names[label]?.[name] ?? '';

/** `the label "positive"`, `the synonym "pos" of "positive"` */
function described(names: readonly LabelNames[], place: NamePlace): string {
  const quoted = (name: number): string => JSON.stringify(nameAt(names, { ...place, name }));
  return place.name === 0 ? `the label ${quoted(0)}` : `the synonym ${quoted(place.name)} of ${quoted(0)}`;
}
