/** The commands, in the order of the help. */
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
 * A text of ours whose commands begin as this process was started, so that they can be copied: what npx has started is seldom
 * in the PATH. npx says what it starts to everything below it, also to a shell; only where it is us, `npx` is in the command.
 */
export function asStarted(text: string, env: NodeJS.ProcessEnv = process.env): string {
  const { npm_command: command, npm_lifecycle_script: script = '' } = env;
  const isNpx = command === 'exec' && /^['"]?promptmill\b/.test(script);
  return isNpx ? text.replace(COMMAND, 'npx promptmill ') : text;
}
