import { Command } from 'commander';
import { compareDocument } from '../compare/compare-document.js';
import { type ComparePage, compareOutputs } from '../compare/compare-outputs.js';
import { Halt } from '../core/halt.js';
import { OUTPUT_ENDINGS } from '../output/format.js';
import { show } from '../render/terminal.js';
import { terminalText } from '../render/terminal-text.js';
import { GOLD } from './job.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

interface Options {
  readonly by?: string;
  readonly gold?: readonly string[];
  readonly output?: string;
  readonly html?: string;
  readonly overwrite?: boolean;
  readonly json?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill compare out/monday.csv out/tuesday.csv
      the same input twice: rows are matched by row number
  $ promptmill compare out/monday.csv out/tuesday.csv --by review_id
      inputs that differ: rows are matched by a column that both have
  $ promptmill compare old.csv new.csv --gold gold.csv:truth
      which one is better, by the right answers of a file or a column
  $ promptmill compare old.csv new.jsonl --output changed.csv
      and the rows that changed, with both answers
  $ promptmill compare old.csv new.csv --html changed.html
      one page that loads nothing, for a browser
  $ promptmill compare old.csv new.csv --json | jq .transitions

Without --by rows are matched by the column that input.id of their jobs names,
else by row number if both outputs have the same input. Nothing is called. Exit
codes: 0 compared; 2 they could not be; 130, 143 interrupted.
`;

export function compareCommand(exit: Exit): Command {
  return new Command('compare')
    .description('say what changed from one finished output to another; sends nothing')
    .argument('<a>', `the output of a run, ${OUTPUT_ENDINGS}`)
    .argument('<b>', 'another one')
    .option('--by <column>', 'column of the input that tells rows from each other')
    .option(...GOLD)
    .option('--output <file>', 'write the rows that changed to this .csv file')
    .option('--html <file>', 'write the comparison as one page, with the first 1,000 rows that changed')
    .option('--overwrite', 'replace the files of --output and --html')
    .option('--json', 'print the comparison as JSON on standard output')
    .addHelpText('after', EXAMPLES)
    .action(async (a: string, b: string, options: Options) => {
      exit(await compare(a, b, options, exit));
    });
}

async function compare(a: string, b: string, options: Options, exit: Exit): Promise<number> {
  const { by, gold, output, html, overwrite = false, json } = options;
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    const changed = output === undefined ? undefined : { path: output, overwrite };
    const page = html === undefined ? undefined : { path: html, overwrite, render: await pageRenderer() };
    const report = await compareOutputs(a, b, { by, gold, changed, page, signal: halt.signal });
    for (const note of report.notes) process.stderr.write(`warning: ${terminalText(note)}\n`);
    if (json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    else {
      const files = [
        ...(output === undefined ? [] : [['changed rows', output] as const]),
        ...(html === undefined ? [] : [['page', html] as const]),
      ];
      show(compareDocument(report, null, files), process.stderr);
    }
    return 0;
  } catch (error) {
    if (halt.reason?.kind !== 'signal') throw error;
    process.stderr.write('stopped; nothing was written.\n');
    return EXIT_OF_SIGNAL[halt.reason.signal];
  } finally {
    release();
  }
}

async function pageRenderer(): Promise<ComparePage['render']> {
  const { renderHtml } = await import('../render/html.js');
  return (report, changed) => renderHtml(compareDocument(report, changed));
}
