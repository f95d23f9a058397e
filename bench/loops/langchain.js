import { OpenAI } from '@langchain/openai';
import { allRows, inFlight, parameters, prompt, url, writeAll } from './rows.js';

/** LangChain.js over all rows at once, as its documentation shows it. */
const { max_tokens, temperature, stop } = parameters;
const model = new OpenAI({
  ...{ model: 'bench', maxTokens: max_tokens, temperature, stop },
  ...{ apiKey: 'bench', configuration: { baseURL: url } },
});
const rows = allRows();
writeAll(rows, await model.batch(rows.map(prompt), { maxConcurrency: inFlight }));
