// A BullMQ worker that runs a job for each entry of the queue "runs": {"input": "reviews.csv", "output": "answers.csv"}. A run that
// stopped early, or whose worker was killed, goes on with the next attempt of its entry.
import { Worker } from 'bullmq';
import { defineJob, run } from 'promptmill';

const job = defineJob({
  service: { deployment: 'lm-35-turbo-instruct' },
  prompt: 'Is the sentiment of this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
  input: { require: ['review'] },
  parameters: { max_tokens: 5, temperature: 0 },
  answer: { labels: ['positive', 'negative', 'neutral'] },
});

/**
 * @param {import('bullmq').ConnectionOptions} connection
 * @param {AbortSignal} [signal] ends the runs under way, so that others go on with them
 */
export const runsWorker = (connection, signal) =>
  new Worker(
    'runs',
    async (entry) => {
      const { summary } = await run(job, {
        ...{ rows: entry.data.input, output: entry.data.output, signal },
        onProgress: ({ known, total }) => void entry.updateProgress({ known, total }).catch(() => {}),
      });
      if (summary.stopped !== null) throw new Error(summary.stopped);
      return summary.rows;
    },
    { connection, concurrency: 2 },
  );

if (process.argv[1] === import.meta.filename)
  runsWorker({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
