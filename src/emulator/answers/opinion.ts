import { wordsOf } from './reading.js';

const GOOD =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|good|nice|beautiful|lovely|comf|happy|pleas|glad|enjoy|recommend|satisf|helpful|friendly|fast|easy|reliab|best|better|brilliant|superb|delight|favou?rite|impress|quiet|sturdy|solid|durable|warm|bright|flatter|cute|soft|worth|quality|compliment|thank|gorgeous|clever|handy|smooth|finally|works|lasts|survive)/;
const BAD =
  /^(?:terribl|horribl|awful|worst|worse|disappoint|hate|useless|garbage|poor|bad|broke|refund|return|waste|cheap|flimsy|leak|crack|rust|stuck|jam|slip|smell|noisy|loud|slow|late|wrong|problem|issue|fault|fail|damage|defect|ripped|torn|tore|hole|itchy|uncomfort|shapeless|unfortunate|sad|annoy|frustrat|rude|missing|junk|scam|dead|died|stopped|avoid|unhappy|nothing|never|weird|odd|thin|tight|huge|stiff|overpric|expensive|complain|unus|mess|fell|burn|melt|wobbl|squeak|cold|hurt|pain|meh|support|too$)/;
const NEGATION = /^(?:not|no|never|hardly|barely|without|cannot|\p{L}+n't)$/u;

/** Opinion words that leave little doubt, unless they are negated. */
const PLAIN =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|beautiful|gorgeous|comf|happy|glad|compliment|recommend|best|superb|enjoy|finally|easy|refund|return|broke|leak|crack|rust|disappoint|worst|awful|terribl|horribl|unfortunate|flimsy|hole|died|burn|waste|useless|poor|stopped|hate|avoid|ripped|torn|smell)/;

/** Weight of the other opinion words, where {@link PLAIN} ones weigh 1. */
const VAGUE = 0.4;

/** A negation reverses the opinion words among the next so many words. */
const NEGATION_REACH = 3;

export interface Opinion {
  /** From −2 to 2. */
  readonly tone: number;
  /** Lean to one side, about −5 to 5. Plain words count more than vague ones; contradictions reduce it. */
  readonly leaning: number;
}

/** `null` for a text without an English opinion word. Words after "but" count twice. */
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
