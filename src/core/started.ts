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
  ...(['schedule', 'serve', 'init', 'emulate', 'completion'] as const),
] as const;

const COMMAND = new RegExp(String.raw`(?<![\w/.-]|npx )promptmill (?=(?:${COMMAND_NAMES.join('|')})\b)`, 'g');

/** Where npm puts the commands of a project. It is in the PATH of npx and of npm scripts, and of nothing else. */
const OF_PROJECT = /[\\/]node_modules[\\/]\.bin[\\/]promptmill$/;

/**
 * Prefixes the commands in a text as this process was started, so that they can be copied: a package of a project
 * is rarely in the PATH. All hints to a person pass through here.
 * @param program its path, as it was called. npx need not start the command of a project; it sets its variables
 *   for all descendants, also for a shell, so they count only when they name this package.
 */
export function asStarted(
  text: string,
  env: NodeJS.ProcessEnv = process.env,
  program = process.argv[1] ?? '',
): string {
  const { npm_command: command, npm_lifecycle_script: script = '' } = env;
  const isNpx = OF_PROJECT.test(program) || (command === 'exec' && /^['"]?promptmill\b/.test(script));
  return isNpx ? text.replace(COMMAND, 'npx promptmill ') : text;
}

export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
