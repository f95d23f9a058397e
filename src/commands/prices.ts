import { Command } from 'commander';
import { readJobFile } from '../config/job-file.js';
import { isPriceList, type PriceList, pricesOf, readPrices } from '../config/prices-file.js';
import { escapeControls } from '../render/terminal-text.js';
import type { Exit } from './signals.js';

const EXAMPLES = `
Examples:
  $ promptmill prices jobs/sentiment.yaml
      what tokens cost in this job, and where that is said
  $ promptmill prices prices.yaml
      what a file says that jobs share (in a job: prices: prices.yaml)

Promptmill knows no prices by itself. A file that jobs share has a line for each
deployment or model, per 1,000 tokens:

  lm-35-turbo-instruct: { prompt: 0.0015, completion: 0.002, currency: EUR }

Exit codes: 0; 2 for a file that cannot be used, or that lacks the deployment.
`;

interface Shown {
  /** `null` when the argument is a file of prices. */
  readonly job: string | null;
  /** The file with the prices; `null` for a job without prices. */
  readonly from: string | null;
  readonly prices: PriceList;
}

export function pricesCommand(exit: Exit): Command {
  return new Command('prices')
    .description('show the prices that a job, or a file shared by jobs, has for tokens')
    .argument('<job>', 'the job file, or a file with prices')
    .option('--json', 'print them as JSON on standard output')
    .addHelpText('after', EXAMPLES)
    .action((path: string, { json }: { readonly json?: boolean }) => {
      const shown = pricesIn(path);
      if (json) {
        const prices = Object.fromEntries(shown.prices);
        process.stdout.write(`${JSON.stringify({ ...shown, prices }, null, 2)}\n`);
      } else process.stdout.write(textOf(shown));
      exit(0);
    });
}

function pricesIn(path: string): Shown {
  if (isPriceList(path)) return { job: null, from: path, prices: readPrices(path, 'prices') };
  const job = readJobFile(path);
  const prices = pricesOf(job);
  if (prices === null) return { job: path, from: null, prices: new Map() };
  const from = typeof job.prices === 'string' ? job.prices : path;
  return { job: path, from, prices: new Map([[job.endpoint.deployment, prices]]) };
}

/** One line per price: `lm-35-turbo-instruct  prompt 0.0015  completion 0.002`. */
function textOf({ job, from, prices }: Shown): string {
  if (from === null)
    return `${escapeControls(job ?? '')} says no prices: its tokens are counted, and their cost is not known\n`;
  if (prices.size === 0) return `${escapeControls(from)} has no prices\n`;
  const names = [...prices.keys()].map(escapeControls);
  const width = Math.max(...names.map((name) => name.length));
  const lines = [...prices.values()].map(
    ({ prompt, cached, completion, flex, batch, currency }, i) =>
      `${(names[i] ?? '').padEnd(width)}  prompt ${prompt}${cached === undefined ? '' : `  cached ${cached}`}  completion ${completion}${flex === undefined ? '' : `  flex × ${flex}`}${batch === undefined ? '' : `  batch × ${batch}`}${currency === undefined ? '' : `  ${currency}`}`,
  );
  return `per 1,000 tokens, by ${escapeControls(from)}:\n${lines.join('\n')}\n`;
}
