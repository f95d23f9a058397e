import { once } from 'node:events';
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const QUESTION = 'Classify the sentiment of the review as positive, negative or neutral.';
const OPINION = 'It works well, though the strap is shorter than in the picture. Would buy again. ';

/** A CSV of reviews that make prompts of so many characters, in thousands, and more or less by one sentence. */
export async function writeReviews(path: string, rows: number, promptKb: number): Promise<string> {
  const opinion = OPINION.repeat(Math.max(1, Math.round((promptKb * 1000 - 130) / OPINION.length)));
  const file = createWriteStream(path);
  file.write('id,review\n');
  for (let id = 1; id <= rows; id++) {
    if (!file.write(`${id},"I bought item ${id} last month. ${opinion}"\n`)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'close');
  return path;
}

/**
 * A job over the reviews of the folder, `rows.csv`. The deployment is not named after its model, so that prompts may have
 * any length.
 * @param onInvalid what is to be done about answers that do not fit. @default nothing
 */
export function writeJob(
  folder: string,
  concurrency: number,
  onInvalid?: object,
  operation: 'completions' | 'chat' = 'completions',
): string {
  const path = join(folder, `job${onInvalid ? '-asking' : ''}${operation === 'chat' ? '-chat' : ''}.yaml`);
  writeFileSync(
    path,
    JSON.stringify({
      service: { deployment: 'bench', operation },
      input: { path: 'rows.csv', require: ['review'] },
      prompt: `${QUESTION}\nReview: {{ review }}\nSentiment:`,
      parameters: { max_tokens: 5, temperature: 0, stop: ['\n'] },
      answer: { labels: ['positive', 'negative', 'neutral'], ...(onInvalid && { on_invalid: onInvalid }) },
      output: { path: 'out.csv' },
      limits: { concurrency },
    }),
  );
  return path;
}
