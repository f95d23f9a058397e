import {
  CATEGORIES,
  type Category,
  perCategory,
  SEVERITIES,
  type Severities,
  type Severity,
  severitiesOf,
  severitiesOfCompletion,
  worseOf,
} from './filter-rules.js';
import { pick, randomFrom } from './random.js';

/** The lowest severity that is blocked; with `off`, severities are reported and nothing is blocked. */
export type Threshold = Exclude<Severity, 'safe'> | 'off';
export const THRESHOLDS: readonly Threshold[] = ['low', 'medium', 'high', 'off'];

/** How one side of a call is filtered. */
export interface FilterSide {
  /** @default 'medium', as the service's own default configuration has it */
  readonly threshold: Threshold;
  /**
   * Share of texts, from 0 to 1, that are taken for severe whatever they say; which ones depends on the seed and
   * on the text alone, so that a text stays blocked when it is sent again. @default 0
   */
  readonly rate: number;
}

/** The configuration of the content filter. */
export interface FilterSettings {
  readonly prompts: FilterSide;
  readonly completions: FilterSide;
}

/** The filter's word on one text. */
export type FilterReport = {
  readonly [category in Category]: { readonly filtered: boolean; readonly severity: Severity };
};

export const DEFAULT_SIDE: FilterSide = { threshold: 'medium', rate: 0 };

/** Judges a prompt. */
export function judge(prompt: string, side: FilterSide = DEFAULT_SIDE, seed = 1): FilterReport {
  return verdict(severitiesOf(prompt), side, () => randomFrom(seed, `filter prompt\n${prompt}`));
}

/** Judges the text of a completion, and what its prompt asked for. */
export function judgeCompletion(prompt: string, text: string, side: FilterSide, seed: number): FilterReport {
  return verdict(severitiesOfCompletion(prompt, text), side, () =>
    randomFrom(seed, `filter completion\n${prompt}\n${text}`),
  );
}

export function isBlocked(report: FilterReport): boolean {
  return CATEGORIES.some((category) => report[category].filtered);
}

function verdict(severities: Severities, side: FilterSide, random: () => () => number): FilterReport {
  const drawn = side.rate > 0 ? draw(side, random()) : null;
  return perCategory((category) => {
    const severity =
      drawn?.category === category ? worseOf(severities[category], drawn.severity) : severities[category];
    return { filtered: isFiltered(severity, side.threshold), severity };
  });
}

function draw({ rate, threshold }: FilterSide, random: () => number) {
  if (random() >= rate) return null;
  const severity: Severity = threshold === 'high' ? 'high' : 'medium';
  return { category: pick(random, CATEGORIES), severity };
}

function isFiltered(severity: Severity, threshold: Threshold): boolean {
  return threshold !== 'off' && SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(threshold);
}
