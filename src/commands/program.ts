import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { checkCommand } from './check.js';
import { emulateCommand } from './emulate.js';
import type { UnderWay } from './last-words.js';
import { runCommand } from './run.js';
import { scheduleCommand } from './schedule.js';
import { serveCommand } from './serve.js';
import type { Exit } from './signals.js';
import { statusCommand } from './status.js';
import { workCommand } from './work.js';

/** The command line: every command with its options. */
export function commandLine(exit: Exit, underWay: UnderWay): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const program = new Command('promptmill')
    .description('Batch jobs for text-completions endpoints: every row answered once, in order, resumable.')
    .version(version)
    .showHelpAfterError('(--help shows what there is)');
  const commands = [
    runCommand(exit, underWay),
    checkCommand(exit),
    workCommand(exit, underWay),
    statusCommand(exit),
    scheduleCommand(exit),
    serveCommand(exit, underWay),
    emulateCommand(),
  ];
  for (const command of commands) {
    program.addCommand(command.exitOverride());
  }
  return program.exitOverride();
}
