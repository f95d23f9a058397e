// node examples/progress.js reviews.csv answers.csv: a progress of your own, made of the events of a run.
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is the sentiment of this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['positive', 'negative', 'neutral'] },
});

const [, , rows = 'reviews.csv', output = 'answers.csv'] = process.argv;
/** @param {string} line */
const say = (line) => {
  process.stdout.write(`${line}\n`);
};
let calls = 0;
await run(job, {
  rows,
  output,
  onEvent: (event) => {
    if (event.type === 'run started') say(`${event.total} rows, ${event.committed} of them done`);
    if (event.type === 'call ended') calls += 1;
    if (event.type === 'pulse' && event.waiting !== null) say(`waiting: ${event.waiting}`);
    if (event.type === 'committed')
      say(`${event.rows.total} rows on disk, ${event.rows.failed} failed, ${calls} calls`);
  },
});
