// POST / with a JSON array of {"id", "text"} answers with a line of JSON for each row, as soon as it is known. A client that leaves
// ends its run.
import { Readable } from 'node:stream';
import fastify from 'fastify';
import { defineJob, run } from 'promptmill';

const job = defineJob({
  name: 'topics',
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is this message about billing, delivery or something else?\nMessage: {{ text }}\nTopic:',
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['billing', 'delivery', 'else'] },
});

/**
 * @param {Iterable<{ id: unknown, text: string }>} rows
 * @param {AbortSignal} signal
 */
async function* answers(rows, signal) {
  for await (const { input, status, answer } of run(job, { rows, signal }))
    yield `${JSON.stringify({ id: input.id, status, answer })}\n`;
}

export const app = fastify();

app.post('/', { schema: { body: { type: 'array', items: { type: 'object' } } } }, async (request, reply) => {
  const leaving = new AbortController();
  reply.raw.once('close', () => leaving.abort());
  reply.type('application/jsonl');
  const rows = /** @type {{ id: unknown, text: string }[]} */ (request.body);
  return Readable.from(answers(rows, leaving.signal));
});

if (process.argv[1] === import.meta.filename) {
  process.stdout.write(`${await app.listen({ port: Number(process.env.PORT ?? 3000) })}\n`);
}
