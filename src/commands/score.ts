import { Command } from 'commander';
import { scoreDocument } from '../compare/score-document.js';
import { scoreOutput } from '../compare/score-output.js';
import { show } from '../render/terminal.js';
import { terminalText } from '../render/terminal-text.js';
import { openFinished } from '../resume/finished-output.js';
import { GOLD, openAnswered } from './job.js';
import type { Exit } from './signals.js';

interface Options {
  readonly gold?: readonly string[];
  readonly job?: string;
  readonly json?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill score out/reviews.csv
      against the column that answer.gold names
  $ promptmill score out/reviews.csv --gold rating
      against another column of the output
  $ promptmill score out/reviews.csv --gold sentiment_true \\
      --gold out/reviews.review.csv
      and with the answers that people put into the file for review
  $ promptmill score out/reviews.csv --gold gold.csv:truth --json |
      jq .scores.accuracy

A file has the id of a row in the column of input.id, or else the number of a
row of the output in its column "row", or else an id in its first column; the
right answers are in the column named behind the colon, or else in "answer", or
else in the only other column. Nothing is called. Exit codes: 0 scored; 2 it
could not be.
`;

export function scoreCommand(exit: Exit): Command {
  return new Command('score')
    .description('say how good the answers of a finished output are; sends nothing')
    .argument('<output>', 'the output of a run, for example out/reviews.csv')
    .option(...GOLD)
    .option('--job <file>', 'the job file (default: the one that the summary names)')
    .option('--json', 'print the scores as JSON on standard output')
    .addHelpText('after', EXAMPLES)
    .action(async (output: string, options: Options) => {
      await score(output, options);
      exit(0);
    });
}

async function score(output: string, { gold = [], job, json }: Options): Promise<void> {
  const found = await openFinished(output, 'warn');
  const { settings, file } = openAnswered(found, job);
  const { warning } = found;
  if (warning !== null) process.stderr.write(`warning: ${terminalText(warning)}\n`);
  const report = await scoreOutput(output, { ...settings, file }, gold, warning);
  if (json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  else show(scoreDocument(report), process.stderr);
}
