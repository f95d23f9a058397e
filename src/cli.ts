#!/usr/bin/env node
import { readFileSync, writeSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { nodeProblem } from './core/node-version.js';

// Everything else is loaded below, because an older Node.js cannot parse it.
const problem = nodeProblem(process.versions.node);
if (problem !== null) {
  process.stderr.write(
    `promptmill: ${problem}\nInstall it from https://nodejs.org, and run the same command again.\n`,
  );
  process.exit(2);
}

// Said before the rest is loaded, which takes as long as the start of Node.js. The path is the same in `dist`.
if (process.argv[2] === '--version' || process.argv[2] === '-V') {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  try {
    writeSync(1, `${version}\n`);
  } catch {
    // The reader is gone.
  }
  process.exit(0);
}

// By default V8 lets the heap double between collections. A run makes much garbage and keeps little, so it
// would take half as much memory again for no more speed (bench/overhead, 100,000 rows: 320 MB, with this 200
// MB).
setFlagsFromString('--heap-growing-percent=30');

const { exitMessage, UnderWay } = await import('./commands/exit-message.js');

// A closed reader (`| head`, a closed terminal) is an error of the writer, which handles it; without a
// listener it would end the process in the middle of a run, with the exit code of failed rows (fault 51).
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

/** The only file that ends the process. */
const underWay = new UnderWay();
function end(error: unknown): never {
  const { text, exit } = exitMessage(error, underWay.resume);
  try {
    // A terminal may have a screen on it, which the stream knows.
    if (process.stderr.isTTY) process.stderr.write(text);
    else writeSync(2, text);
  } catch {
    // The reader is gone.
  }
  process.exit(exit);
}

// Node would exit with 1, which means a finished run (fault 84).
process.on('uncaughtException', end).on('unhandledRejection', end);

try {
  // Loaded here, because even this can fail when few files may be open.
  const { runCommandLine } = await import('./commands/program.js');
  await runCommandLine(process.argv.slice(2), process.exit, underWay);
} catch (error) {
  end(error);
}
process.exit(0);
