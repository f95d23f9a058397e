import { createWriteStream } from 'node:fs';
import { Pool } from 'undici';
import { inFlight, output, parameters, prompt, rowByRow, url } from './rows.js';

/** The baseline: the leanest loop over undici. No order, no resume, no retry. */
const { origin, pathname } = new URL(url);
const pool = new Pool(origin, { connections: inFlight });
const rows = rowByRow()[Symbol.asyncIterator]();
const out = createWriteStream(output);
out.write('id,answer\n');

async function loop() {
  for (;;) {
    const next = await rows.next();
    if (next.done) return;
    const response = await pool.request({
      path: `${pathname}/completions`,
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer bench' },
      body: JSON.stringify({ model: 'bench', prompt: prompt(next.value), ...parameters }),
    });
    const answer = JSON.parse(await response.body.text());
    out.write(`${next.value.id},${answer.choices[0].text.trim()}\n`);
  }
}

await Promise.all(Array.from({ length: inFlight }, loop));
out.end();
await pool.close();
