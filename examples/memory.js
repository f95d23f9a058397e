// node examples/memory.js: answers for rows that a program has in memory, as a Map from their ids.
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is this message about billing, delivery or something else?\nMessage: {{ text }}\nTopic:',
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['billing', 'delivery', 'else'] },
});

const messages = [
  { id: 'M1', text: 'Where is my parcel?' },
  { id: 'M2', text: 'I was charged twice.' },
  { id: 'M3', text: 'Do you have a shop in Ghent?' },
];

const topics = new Map();
for await (const { input, answer, error } of run(job, { rows: messages }))
  topics.set(input.id, answer ?? error?.code);

for (const [id, topic] of topics) process.stdout.write(`${id}\t${topic}\n`);
