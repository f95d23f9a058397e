import OpenAI from 'openai';
import pLimit from 'p-limit';
import { allRows, inFlight, parameters, prompt, url, writeAll } from './rows.js';

/** What most people would write: the OpenAI SDK under p-limit. */
const client = new OpenAI({ baseURL: url, apiKey: 'bench' });
const rows = allRows();
const limit = pLimit(inFlight);
const answers = await limit.map(rows, async (row) => {
  const completion = await client.completions.create({ model: 'bench', prompt: prompt(row), ...parameters });
  return completion.choices[0].text;
});
writeAll(rows, answers);
