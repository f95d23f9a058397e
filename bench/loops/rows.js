import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'csv-parse';
import { parse as parseSync } from 'csv-parse/sync';

/** What a loop is told: the endpoint, the CSV to read, the file to write, the calls in flight. */
export const [url = '', input = '', output = '', concurrency = '1'] = process.argv.slice(2);
export const inFlight = Number(concurrency);
export const parameters = { max_tokens: 5, temperature: 0, stop: ['\n'] };

export const prompt = ({ review }) =>
  `Classify the sentiment of the review as positive, negative or neutral.\nReview: ${review}\nSentiment:`;

/** The rows one by one, as they are read. */
export const rowByRow = () => createReadStream(input).pipe(parse({ columns: true }));

/** All rows, as most scripts read them. */
export const allRows = () => parseSync(readFileSync(input), { columns: true });

/** Writes the answers beside the ids of their rows. */
export function writeAll(rows, answers) {
  writeFileSync(output, `id,answer\n${rows.map(({ id }, i) => `${id},${answers[i].trim()}\n`).join('')}`);
}
