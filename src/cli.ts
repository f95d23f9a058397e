#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { Command, CommanderError } from 'commander';
import { checkCommand } from './commands/check.js';
import { emulateCommand } from './commands/emulate.js';
import { runCommand } from './commands/run.js';
import { scheduleCommand } from './commands/schedule.js';
import { serveCommand } from './commands/serve.js';
import { statusCommand } from './commands/status.js';
import { workCommand } from './commands/work.js';
import { PromptmillError } from './errors.js';

// By default V8 lets the heap double between collections. A run makes much garbage and keeps little, so it would
// take half as much memory again for no more speed (bench/overhead, 100,000 rows: 320 MB, with this 200 MB).
setFlagsFromString('--heap-growing-percent=30');

// A reader that has gone (`| head`, a closed terminal) is told to whoever writes and minds; without a listener it
// would end the process in the middle of a run, with the exit code of failed rows (fault 51).
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

/** argv → command. The only file that ends the process. */
async function main(): Promise<number> {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const program = new Command('promptmill')
    .description('Batch jobs for text-completions endpoints: every row answered once, in order, resumable.')
    .version(version)
    .showHelpAfterError('(--help shows what there is)');
  const { exit } = process;
  const commands = [
    runCommand(exit),
    checkCommand(exit),
    workCommand(exit),
    statusCommand(exit),
    scheduleCommand(exit),
    serveCommand(exit),
    emulateCommand(),
  ];
  for (const command of commands) {
    program.addCommand(command.exitOverride());
  }
  await program.exitOverride().parseAsync();
  return 0;
}

/** Exit code of an error, after it is said in one or two lines; a stack only for what is a defect. */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof PromptmillError) {
    process.stderr.write(
      `promptmill: ${error.message}\n${error.hint === undefined ? '' : `${error.hint}\n`}`,
    );
    return error.exit;
  }
  const stack = error instanceof Error ? error.stack : String(error);
  process.stderr.write(`promptmill: this is a defect, please report it\n${stack}\n`);
  // Whatever was under way can be continued.
  return 3;
}

process.exit(await main().catch(explain));
