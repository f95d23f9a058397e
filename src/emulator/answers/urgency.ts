import { CLEAR, toneOf } from './sentiment.js';

type Urgency = 'high' | 'medium' | 'low';

const NONE =
  /not urgent|no (?:hurry|rush|complaint)|nothing to do|case closed|all good|eilt nicht|pas urgent|never ?mind|\bnvm\b/i;
const PRESSING =
  /(?<!not )urgent|asap|as soon as possible|immediately|emergency|right away|danger|spark|smoke|fire|tonight|lawyer|!!|\bTODAY\b|third message|dringend|sofort|umgehend|gefährlich|rapidement|d'urgence|urgente|iskrzy/i;
const WAITING =
  /soon|today|tomorrow|still|wait|deadline|missing|wrong|before|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|refund|broke|dead|leak|never|where (?:is|my)|late\b|noch nicht|toujours|todavía|ancora|ainda|nog niet/i;

/** How soon a text wants something done. */
export function urgencyOf(text: string): Urgency {
  if (NONE.test(text)) return 'low';
  if (PRESSING.test(text)) return 'high';
  return WAITING.test(text) || toneOf(text) <= -CLEAR ? 'medium' : 'low';
}

const LEVELS: { readonly [level in Urgency]: RegExp } = {
  high: /high|urgent|critical|hoch|haute|alta/i,
  medium: /medium|normal|moderate|mittel|moyen|media/i,
  low: /low|minor|niedrig|basse|baja/i,
};

/** The one of the options that means a level, if one does. */
export function levelAmong(options: readonly string[], level: Urgency): string | undefined {
  return options.find((option) => LEVELS[level].test(option));
}
