import { eachOf } from '../core/counters.js';
import { pick, randomFrom } from '../core/random.js';

/**
 * A stand-in for the content filter: a short list of phrases, each with a category and a severity. It
 * exercises what happens when something is blocked; it does not judge content.
 */

const CATEGORIES = ['hate', 'self_harm', 'sexual', 'violence'] as const;
type Category = (typeof CATEGORIES)[number];

const SEVERITIES = ['safe', 'low', 'medium', 'high'] as const;
type Severity = (typeof SEVERITIES)[number];

type Severities = { readonly [category in Category]: Severity };

interface Rule {
  readonly category: Category;
  readonly severity: Severity;
  readonly pattern: RegExp;
}

const PERSON = '(?:you|him|her|them|someone|somebody|people|(?:a|my|your|his|her) \\w+)';
const GROUP =
  '(?:immigrants|foreigners|refugees|women|men|muslims|jews|christians|gay people|black people|white people)';

/** Phrases matched in a prompt or a completion. */
const RULES: readonly Rule[] = [
  rule('violence', 'low', 'weapons?|guns?|stabbing|murder(?:ed|er|s)?|bloodshed'),
  rule('violence', 'medium', `(?:how to|going to|want to|i will|i'll) (?:kill|murder|stab|shoot) ${PERSON}`),
  rule(
    'violence',
    'high',
    '(?:build|make|detonate|plant) (?:a |the )?(?:pipe )?bomb|carry out a (?:mass )?shooting',
  ),
  rule('hate', 'low', 'racists?|bigots?|sexists?'),
  rule(
    'hate',
    'medium',
    `i (?:hate|despise) (?:all )?${GROUP}|(?:all )?${GROUP} are (?:vermin|inferior|subhuman)`,
  ),
  rule('hate', 'high', `(?:exterminate|eradicate|wipe out) (?:all |the )?${GROUP}`),
  rule('sexual', 'low', 'sexy|sensual|erotic'),
  rule('sexual', 'medium', 'porn(?:ography|ographic)?|sexually explicit'),
  rule(
    'sexual',
    'high',
    'sexual (?:acts?|content) (?:with|of|involving) (?:a |an )?(?:minors?|child(?:ren)?)',
  ),
  rule('self_harm', 'low', 'suicide|suicidal|self-harm'),
  rule('self_harm', 'medium', '(?:kill|harm) myself|end my (?:own )?life|commit suicide'),
  rule(
    'self_harm',
    'high',
    '(?:best|easiest|painless) (?:way|method) (?:to|of) (?:commit(?:ting)? suicide|suicide|kill(?:ing)? myself)',
  ),
];

/** Phrases of a prompt that passes, although a model that complied would be blocked on the way out. */
const REQUESTS: readonly Rule[] = [
  rule('violence', 'medium', '(?:graphic|gory) (?:violence|fight|scene|description|detail)'),
  rule('hate', 'medium', '(?:hateful|racist|insulting) (?:joke|slogan|speech|rant)s?'),
  rule('sexual', 'medium', 'erotic (?:scene|story|poem)'),
];

function worseOf(a: Severity, b: Severity): Severity {
  return SEVERITIES.indexOf(a) < SEVERITIES.indexOf(b) ? b : a;
}

function rule(category: Category, severity: Severity, phrases: string): Rule {
  return { category, severity, pattern: new RegExp(`\\b(?:${phrases})\\b`, 'i') };
}

function worst(rules: readonly Rule[], text: string): Severities {
  const found = rules.filter((candidate) => candidate.pattern.test(text));
  return eachOf(CATEGORIES, (category) =>
    found
      .filter((candidate) => candidate.category === category)
      .reduce<Severity>((most, { severity }) => worseOf(most, severity), 'safe'),
  );
}

/** The lowest severity that is blocked; with `off`, severities are reported but nothing is blocked. */
export type Threshold = Exclude<Severity, 'safe'> | 'off';
export const THRESHOLDS: readonly Threshold[] = ['low', 'medium', 'high', 'off'];

/** How prompts, or completions, are filtered. */
export interface FilterSide {
  /** @default 'medium', as in the service's own default configuration */
  readonly threshold: Threshold;
  /**
   * Share of texts, from 0 to 1, that are treated as severe regardless of content. The choice depends on the
   * seed and the text only, so a text stays blocked when it is sent again. @default 0
   */
  readonly rate: number;
}

export interface FilterSettings {
  readonly prompts: FilterSide;
  readonly completions: FilterSide;
}

export type FilterReport = {
  readonly [category in Category]: { readonly filtered: boolean; readonly severity: Severity };
};

export const DEFAULT_SIDE: FilterSide = { threshold: 'medium', rate: 0 };

export function judge(prompt: string, side: FilterSide = DEFAULT_SIDE, seed = 1): FilterReport {
  return verdict(worst(RULES, prompt), side, () => randomFrom(seed, `filter prompt\n${prompt}`));
}

/** Judges a completion by its own text and by what the prompt asked for. */
export function judgeCompletion(prompt: string, text: string, side: FilterSide, seed: number): FilterReport {
  const [said, asked] = [worst(RULES, text), worst(REQUESTS, prompt)];
  const severities = eachOf(CATEGORIES, (category) => worseOf(said[category], asked[category]));
  return verdict(severities, side, () => randomFrom(seed, `filter completion\n${prompt}\n${text}`));
}

export function isBlocked(report: FilterReport): boolean {
  return CATEGORIES.some((category) => report[category].filtered);
}

function verdict(severities: Severities, side: FilterSide, random: () => () => number): FilterReport {
  const drawn = side.rate > 0 ? draw(side, random()) : null;
  return eachOf(CATEGORIES, (category) => {
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
