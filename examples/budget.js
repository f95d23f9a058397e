// node examples/budget.js reviews.csv answers.csv 0.50: asks what a run may cost, and begins it only when that is within a budget,
// which the run keeps to.
import { check, defineJob, run } from 'promptmill';

const [, , rows = 'reviews.csv', output = 'answers.csv', most = '0.50'] = process.argv;
const cost = Number(most);

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is the sentiment of this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['positive', 'negative', 'neutral'] },
  prices: { prompt: 0.0015, completion: 0.002, currency: 'USD' },
  limits: { budget: { cost } },
});

const quote = await check(job, { rows });
const highest = quote.cost?.most ?? Number.POSITIVE_INFINITY;
process.stdout.write(`${quote.input.rows} rows for at most ${highest.toFixed(4)} ${quote.currency}\n`);

if (highest > cost) {
  process.stdout.write(`that may be more than ${most}: nothing was sent\n`);
  process.exitCode = 1;
} else {
  const { summary } = await run(job, { rows, output });
  process.stdout.write(`${summary.rows.completed} rows cost ${summary.cost?.toFixed(4)} ${quote.currency}\n`);
}
