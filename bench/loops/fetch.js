import pLimit from 'p-limit';
import { allRows, inFlight, parameters, prompt, url, writeAll } from './rows.js';

/** Node's own `fetch` under p-limit. */
const rows = allRows();
const limit = pLimit(inFlight);
const answers = await limit.map(rows, async (row) => {
  const response = await fetch(`${url}/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer bench' },
    body: JSON.stringify({ model: 'bench', prompt: prompt(row), ...parameters }),
  });
  return (await response.json()).choices[0].text;
});
writeAll(rows, answers);
