// node examples/stream.js answers.jsonl 250: rows that come page by page, as from a database, into a file. Nothing is sent before
// the last page is here. A run that was stopped goes on when the program is started again.
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Summarize this ticket in one sentence.\n{{ text }}\nSummary:',
  parameters: { max_tokens: 40, temperature: 0 },
});

const [, , output = 'answers.jsonl', count = '250'] = process.argv;
const PAGE = 100;

/**
 * Takes the place of a query.
 * @param {number} from
 */
const page = async (from) =>
  Array.from({ length: Math.min(PAGE, Number(count) - from) }, (_, i) => ({
    id: from + i + 1,
    text: `Ticket ${from + i + 1}: the printer is offline again.`,
  }));

async function* tickets() {
  for (let from = 0; from < Number(count); from += PAGE) yield* await page(from);
}

const { summary } = await run(job, { rows: tickets(), output });
process.stdout.write(`${summary.rows.completed} of ${summary.rows.total} rows in ${summary.output}\n`);
process.exitCode = summary.stopped === null ? 0 : 1;
