import { shellWord } from '../shell-word.js';

/**
 * The command that calls failed rows of an output again.
 * @param emulated the rows were called in a rehearsal, and are again
 */
export const retryCommandFor = (output: string, emulated: boolean): string =>
  `promptmill retry ${shellWord(output)}${emulated ? ' --emulate' : ''}`;
