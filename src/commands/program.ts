import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { packageFile } from '../package-file.js';
import type { UnderWay } from './last-words.js';
import type { Exit } from './signals.js';

/** Each command, loaded when it is used: to load them all takes half a second. */
const COMMANDS = {
  run: async (exit: Exit, underWay: UnderWay) => (await import('./run.js')).runCommand(exit, underWay),
  check: async (exit: Exit) => (await import('./check.js')).checkCommand(exit),
  work: async (exit: Exit, underWay: UnderWay) => (await import('./work.js')).workCommand(exit, underWay),
  status: async (exit: Exit) => (await import('./status.js')).statusCommand(exit),
  score: async (exit: Exit) => (await import('./score.js')).scoreCommand(exit),
  'merge-review': async (exit: Exit) => (await import('./merge-review.js')).mergeReviewCommand(exit),
  schedule: async (exit: Exit) => (await import('./schedule.js')).scheduleCommand(exit),
  serve: async (exit: Exit, underWay: UnderWay) => (await import('./serve.js')).serveCommand(exit, underWay),
  emulate: async () => (await import('./emulate.js')).emulateCommand(),
};

/** Runs the command line: the words behind `promptmill`. */
export async function runCommandLine(
  words: readonly string[],
  exit: Exit,
  underWay: UnderWay,
): Promise<void> {
  const { version } = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'));
  const program = new Command('promptmill')
    .description('Batch jobs for text-completions endpoints: every row answered once, in order, resumable.')
    .version(version)
    .showHelpAfterError('(--help lists commands and options)');
  for (const load of named(words[0])) {
    const command = await load(exit, underWay);
    program.addCommand(command.exitOverride());
  }
  await program.exitOverride().parseAsync(words, { from: 'user' });
}

/** What the first word is about: one command, none, or all of them in the help and in the answer to a slip. */
function named(word = '--help') {
  if (word === '--version' || word === '-V') return [];
  const command = Object.entries(COMMANDS).find(([name]) => name === word);
  return command === undefined ? Object.values(COMMANDS) : [command[1]];
}
