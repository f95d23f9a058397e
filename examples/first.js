// node examples/first.js reviews.csv 3: the first reviews that are negative. Leaving the loop ends the run: what is ahead of it at
// most is paid for in vain.
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is the sentiment of this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['positive', 'negative', 'neutral'] },
});

const [, , rows = 'reviews.csv', wanted = '3'] = process.argv;
const found = [];
const results = run(job, { rows, ahead: 10, concurrency: 5 });
for await (const { input, answer } of results) {
  if (answer === 'negative') found.push(input.review_id);
  if (found.length === Number(wanted)) break;
}

const { calls } = await results.summary;
process.stdout.write(`${found.join(' ')}\n${calls.sent} calls\n`);
