// node examples/script.js reviews.csv: the reviews that are negative.
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is the sentiment of this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
  input: { require: ['review'] },
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['positive', 'negative', 'neutral'] },
});

for await (const { input, answer } of run(job, { rows: process.argv[2] })) {
  if (answer === 'negative') process.stdout.write(`${input.review_id}\n`);
}
