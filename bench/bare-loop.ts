import { createReadStream, createWriteStream } from 'node:fs';
import { parse } from 'csv-parse';
import { Pool } from 'undici';

/**
 * The baseline: what a script would do. Reads the CSV, calls the endpoint with so many calls in flight over
 * undici's `request`, parses the answer, and appends a line to a file. No order, no resume, no retry.
 *
 * Arguments: url, input, output, concurrency.
 */
const [url = '', input = '', output = '', concurrency = '1'] = process.argv.slice(2);
const { origin, pathname, search } = new URL(url);
const pool = new Pool(origin, { connections: Number(concurrency) });
const rows = createReadStream(input).pipe(parse({ columns: true }));
const records = rows[Symbol.asyncIterator]();
const out = createWriteStream(output);

async function loop(): Promise<void> {
  for (;;) {
    const next = await records.next();
    if (next.done) return;
    const prompt = `Classify the sentiment of the review as positive, negative or neutral.\nReview: ${next.value.review}\nSentiment:`;
    const response = await pool.request({
      path: pathname + search,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'api-key': 'bench' },
      body: JSON.stringify({ prompt, max_tokens: 5, temperature: 0, stop: ['\n'] }),
    });
    const answer = JSON.parse(await response.body.text());
    out.write(`${next.value.id},${answer.choices[0].text.trim()}\n`);
  }
}

await Promise.all(Array.from({ length: Number(concurrency) }, loop));
out.end();
await pool.close();
