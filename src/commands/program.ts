import { readFileSync } from 'node:fs';
import { Command, type OutputConfiguration } from 'commander';
import { UsageError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { packageFile } from '../core/package-file.js';
import { asStarted, type COMMAND_NAMES, shellWord } from '../core/started.js';
import { terminalText } from '../render/terminal-text.js';
import type { UnderWay } from './exit-message.js';
import type { Exit } from './signals.js';

/** Loaded on use: loading all commands takes half a second. */
const COMMANDS = {
  run: async (exit: Exit, underWay: UnderWay) => (await import('./run.js')).runCommand(exit, underWay),
  retry: async (exit: Exit, underWay: UnderWay) => (await import('./retry.js')).retryCommand(exit, underWay),
  check: async (exit: Exit) => (await import('./check.js')).checkCommand(exit),
  work: async (exit: Exit, underWay: UnderWay) => (await import('./work.js')).workCommand(exit, underWay),
  status: async (exit: Exit) => (await import('./status.js')).statusCommand(exit),
  score: async (exit: Exit) => (await import('./score.js')).scoreCommand(exit),
  compare: async (exit: Exit) => (await import('./compare.js')).compareCommand(exit),
  report: async (exit: Exit) => (await import('./report.js')).reportCommand(exit),
  try: async (exit: Exit) => (await import('./try.js')).tryCommand(exit),
  'merge-review': async (exit: Exit) => (await import('./merge-review.js')).mergeReviewCommand(exit),
  schedule: async (exit: Exit) => (await import('./schedule.js')).scheduleCommand(exit),
  serve: async (exit: Exit, underWay: UnderWay) => (await import('./serve.js')).serveCommand(exit, underWay),
  init: async (exit: Exit) => (await import('./init.js')).initCommand(exit),
  emulate: async () => (await import('./emulate.js')).emulateCommand(),
  completion: async (exit: Exit, underWay: UnderWay): Promise<Command> =>
    (await import('./completion.js')).completionCommand(() => wholeProgram(exit, underWay)),
} satisfies Record<(typeof COMMAND_NAMES)[number], (exit: Exit, underWay: UnderWay) => Promise<Command>>;

/** Names that other tools use for these commands. */
const MEANT: Readonly<Record<string, keyof typeof COMMANDS>> = {
  ...{ validate: 'check', verify: 'check', lint: 'check', test: 'check', estimate: 'check' },
  ...{ 'dry-run': 'check', dryrun: 'check', start: 'run', resume: 'run', worker: 'work', ps: 'status' },
  ...{
    new: 'init',
    create: 'init',
    eval: 'score',
    evaluate: 'score',
    diff: 'compare',
    rerun: 'retry',
    completions: 'completion',
  },
};

export async function runCommandLine(
  words: readonly string[],
  exit: Exit,
  underWay: UnderWay,
): Promise<void> {
  const [word] = words;
  if (word !== undefined && word !== 'help' && !word.startsWith('-') && !Object.hasOwn(COMMANDS, word))
    throw await unknownCommand(word);
  const program = await programOf(named(word), exit, underWay);
  await program.parseAsync(words, { from: 'user' });
}

/** The program with all of its commands. */
export const wholeProgram = (exit: Exit, underWay: UnderWay): Promise<Command> =>
  programOf(Object.values(COMMANDS), exit, underWay);

async function programOf(
  commands: readonly (typeof COMMANDS)[keyof typeof COMMANDS][],
  exit: Exit,
  underWay: UnderWay,
): Promise<Command> {
  const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'));
  const program = new Command('promptmill')
    .description('Batch jobs for text-completions endpoints: every row answered once, in order, resumable.')
    .version(version)
    .showHelpAfterError('(--help lists commands and options)')
    // Every command has options. Without that word, descriptions fit beside the names at 80 columns.
    .configureHelp({ subcommandTerm: (command) => `${command.name()} ${argumentsOf(command)}`.trimEnd() })
    .configureOutput(OUTPUT)
    .exitOverride();
  for (const load of commands) {
    const command = (await load(exit, underWay)).exitOverride();
    for (const each of [command, ...command.commands]) each.configureOutput(OUTPUT);
    program.addCommand(command.showHelpAfterError(`(promptmill ${command.name()} --help says more)`));
  }
  return program;
}

const OUTPUT: OutputConfiguration = {
  writeOut: (text) => process.stdout.write(asStarted(text)),
  writeErr: (text) => process.stderr.write(terminalText(text)),
};

/** `<output> <review>`, `[paths...]` */
const argumentsOf = (command: Command): string =>
  command.usage().replace(/^\[options\] ?(\[command\] ?)?/, '');

async function unknownCommand(word: string): Promise<UsageError> {
  const { formatOfName } = await import('../source/format.js');
  const { kindOfName } = await import('../source/kind.js');
  const file = shellWord(word);
  if (formatOfName(word) !== null || kindOfName(word) !== null) {
    return new UsageError(
      'unknown_command',
      `there is no command ${word}; it is data by its name`,
      `Write a job file for it with: promptmill init ${file}`,
    );
  }
  if (/\.ya?ml$/i.test(word)) {
    return new UsageError(
      'unknown_command',
      `there is no command ${word}; it is a job file by its name`,
      `Check it with: promptmill check ${file}\nRun it with: promptmill run ${file}`,
    );
  }
  const names = Object.keys(COMMANDS);
  const meant = Object.hasOwn(MEANT, word) ? MEANT[word] : nearest(word, names);
  return new UsageError(
    'unknown_command',
    `there is no command ${word}${meant ? `; did you mean ${meant}?` : ''}`,
    `Commands: ${names.join(', ')}. --help says what they do.`,
  );
}

/** The commands to load for the first word: one, or all of them for the help. */
function named(word = '--help') {
  const command = Object.entries(COMMANDS).find(([name]) => name === word);
  return command === undefined ? Object.values(COMMANDS) : [command[1]];
}
