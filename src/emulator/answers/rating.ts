import { CLEAR, STRONG, toneOf } from './sentiment.js';

interface Scale {
  readonly lowest: number;
  readonly highest: number;
}

/** "1 to 5 stars", "on a scale from 1-10". */
export function ratingScale(instruction: string): Scale | null {
  if (!/\b(?:rat(?:e|ing)|scale|stars?|score)\b/i.test(instruction)) return null;
  const range = /\b(\d)\s*(?:-|–|to|and)\s*(\d{1,2})\b/.exec(instruction);
  return range ? { lowest: Number(range[1]), highest: Number(range[2]) } : null;
}

/** A text's tone on a scale. */
export function ratingOf(text: string, { lowest, highest }: Scale): number {
  const tone = toneOf(text);
  const share = Math.abs(tone) < CLEAR ? 0.5 : 0.5 + 0.5 * Math.max(-1, Math.min(1, tone / STRONG));
  return Math.round(lowest + share * (highest - lowest));
}
