/** In the order of the help. */
export const COMMAND_NAMES = [
  ...([
    'run',
    'retry',
    'check',
    'work',
    'status',
    'score',
    'compare',
    'report',
    'try',
    'merge-review',
  ] as const),
  ...(['schedule', 'serve', 'init', 'prices', 'emulate', 'completion'] as const),
] as const;

const COMMAND = new RegExp(String.raw`(?<![\w/.-]|npx )promptmill (?=(?:${COMMAND_NAMES.join('|')})\b)`, 'g');

/**
 * Prefixes the commands in a text as this process was started, so that they can be copied: a package run by
 * npx is rarely in the PATH. npx sets its variables for all descendants, also for a shell; only when they
 * name this package, the commands begin with `npx`.
 */
export function asStarted(text: string, env: NodeJS.ProcessEnv = process.env): string {
  const { npm_command: command, npm_lifecycle_script: script = '' } = env;
  const isNpx = command === 'exec' && /^['"]?promptmill\b/.test(script);
  return isNpx ? text.replace(COMMAND, 'npx promptmill ') : text;
}

export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
