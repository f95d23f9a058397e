import { wordsOf } from './reading.js';

/** English words of opinion by their beginnings. */
const GOOD =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|good|nice|beautiful|lovely|comf|happy|pleas|glad|enjoy|recommend|satisf|helpful|friendly|fast|easy|reliab|best|better|brilliant|superb|delight|favou?rite|impress|quiet|sturdy|solid|durable|warm|bright|flatter|cute|soft|worth|quality|compliment|thank|gorgeous|clever|handy|smooth|finally|works|lasts|survive)/;
const BAD =
  /^(?:terribl|horribl|awful|worst|worse|disappoint|hate|useless|garbage|poor|bad|broke|refund|return|waste|cheap|flimsy|leak|crack|rust|stuck|jam|slip|smell|noisy|loud|slow|late|wrong|problem|issue|fault|fail|damage|defect|ripped|torn|tore|hole|itchy|uncomfort|shapeless|unfortunate|sad|annoy|frustrat|rude|missing|junk|scam|dead|died|stopped|avoid|unhappy|nothing|never|weird|odd|thin|tight|huge|stiff|overpric|expensive|complain|unus|mess|fell|burn|melt|wobbl|squeak|cold|hurt|pain|meh|support|too$)/;
const NEGATION = /^(?:not|no|never|hardly|barely|without|cannot|\p{L}+n't)$/u;

/** Words of opinion that leave little doubt, unless they are negated. */
const PLAIN =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|beautiful|gorgeous|comf|happy|glad|compliment|recommend|best|superb|enjoy|finally|easy|refund|return|broke|leak|crack|rust|disappoint|worst|awful|terribl|horribl|unfortunate|flimsy|hole|died|burn|waste|useless|poor|stopped|hate|avoid|ripped|torn|smell)/;

/** What the other words of opinion weigh beside those. */
const VAGUE = 0.4;

/** A negation turns around what follows within so many words. */
const NEGATION_REACH = 3;

/** The opinion of an English text. */
export interface Opinion {
  /** From −2 to 2. */
  readonly tone: number;
  /** How far the text leans to one side: by plain words more than by vague ones, less where some say the opposite. About −5 to 5. */
  readonly leaning: number;
}

/** `null` for a text without an English word of opinion. What follows "but" counts twice. */
export function opinionOf(text: string): Opinion | null {
  let [isSaid, sum, weight, negated, leaning, evidence] = [false, 0, 1, 0, 0, 0];
  for (const word of wordsOf(text)) {
    if (word === 'but' || word === 'however') weight = 2;
    const side = GOOD.test(word) ? 1 : BAD.test(word) ? -1 : 0;
    const points = negated > 0 ? -side * weight : side * weight;
    const clarity = negated <= 0 && PLAIN.test(word) ? 1 : VAGUE;
    isSaid ||= side !== 0;
    sum += points;
    leaning += clarity * points;
    evidence += clarity * Math.abs(points);
    negated = NEGATION.test(word) ? NEGATION_REACH : negated - 1;
  }
  if (!isSaid) return null;
  return { tone: Math.max(-2, Math.min(2, sum)), leaning: leaning / Math.sqrt(evidence + 0.3) };
}
