import type { ReadFrom } from '../../src/answer/text.js';

/** A completion that ended by itself, for a reader of answers. */
export const said = (text: string | null, more: Partial<ReadFrom> = {}): ReadFrom => ({
  text,
  finish_reason: 'stop',
  ...more,
});
