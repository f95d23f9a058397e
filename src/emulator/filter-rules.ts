/**
 * A stand-in for the content filter: a short list of phrases that each name a category and a severity. It is
 * there to exercise what happens when something is blocked, not to judge content.
 */

export const CATEGORIES = ['hate', 'self_harm', 'sexual', 'violence'] as const;
export type Category = (typeof CATEGORIES)[number];

export const SEVERITIES = ['safe', 'low', 'medium', 'high'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** How severe a text is in each category. */
export type Severities = { readonly [category in Category]: Severity };

interface Rule {
  readonly category: Category;
  readonly severity: Severity;
  readonly pattern: RegExp;
}

const PERSON = '(?:you|him|her|them|someone|somebody|people|(?:a|my|your|his|her) \\w+)';
const GROUP =
  '(?:immigrants|foreigners|refugees|women|men|muslims|jews|christians|gay people|black people|white people)';

/** What a prompt or a completion says. */
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

/** What a prompt asks for: the prompt passes, and a model that obliged would be blocked on the way out. */
const REQUESTS: readonly Rule[] = [
  rule('violence', 'medium', '(?:graphic|gory) (?:violence|fight|scene|description|detail)'),
  rule('hate', 'medium', '(?:hateful|racist|insulting) (?:joke|slogan|speech|rant)s?'),
  rule('sexual', 'medium', 'erotic (?:scene|story|poem)'),
];

/** How severe a prompt is, or the text of a completion. */
export function severitiesOf(text: string): Severities {
  return worst(RULES, text);
}

/** How severe a completion is: its own text, and what the prompt asked the model to write. */
export function severitiesOfCompletion(prompt: string, text: string): Severities {
  const [said, asked] = [worst(RULES, text), worst(REQUESTS, prompt)];
  return perCategory((category) => worseOf(said[category], asked[category]));
}

export function worseOf(a: Severity, b: Severity): Severity {
  return SEVERITIES.indexOf(a) < SEVERITIES.indexOf(b) ? b : a;
}

export function perCategory<T>(each: (category: Category) => T): { readonly [category in Category]: T } {
  return {
    hate: each('hate'),
    self_harm: each('self_harm'),
    sexual: each('sexual'),
    violence: each('violence'),
  };
}

function rule(category: Category, severity: Severity, phrases: string): Rule {
  return { category, severity, pattern: new RegExp(`\\b(?:${phrases})\\b`, 'i') };
}

function worst(rules: readonly Rule[], text: string): Severities {
  const found = rules.filter((candidate) => candidate.pattern.test(text));
  return perCategory((category) =>
    found
      .filter((candidate) => candidate.category === category)
      .reduce<Severity>((most, { severity }) => worseOf(most, severity), 'safe'),
  );
}
