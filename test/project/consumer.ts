/** What a program does with the package. `.ci/run` checks its types where the package is installed; nobody runs it. */
import {
  check,
  compare,
  defineJob,
  type RunEvent,
  retry,
  run,
  StopError,
  startEmulator,
  UsageError,
} from 'promptmill';
import * as z from 'zod';

const service = { deployment: 'lm-35-turbo-instruct' } as const;
const labels = defineJob({ service, answer: { labels: ['good', 'bad'] } });
const synonyms = defineJob({ service, answer: { labels: { good: ['fine'], bad: null } } });
const several = defineJob({ service, answer: { labels: ['good', 'bad'], multiple: true } });
const number = defineJob({ service, answer: { number: { min: 1, max: 5 } } });
const schema = z.object({
  name: z.string(),
  stars: z.number().optional(),
  at: z.string().transform((at) => new Date(at)),
});
const json = defineJob({ service, answer: { json: schema, on_invalid: { repair: true } } });
const text = defineJob({ service, parameters: { stop: ['\n'] }, input: { require: ['review'] } });

for await (const { answer } of run(labels)) answer satisfies 'good' | 'bad' | null;
for await (const { answer } of run(synonyms)) answer satisfies 'good' | 'bad' | null;
for await (const { answer } of run(several)) answer satisfies readonly ('good' | 'bad')[] | null;
for await (const { answer } of run(number)) answer satisfies number | null;
for await (const { answer } of run(json))
  answer satisfies { name: string; stars?: number | undefined; at: Date } | null;
for await (const { answer } of run(text)) answer satisfies string | null;
for await (const { row, input, error } of run('job.yaml'))
  [row satisfies number, input['id'], error?.code satisfies string | undefined];

const events: RunEvent[] = [];
const options = {
  rows: new Blob(['id\n1\n']).stream(),
  format: 'csv',
  env: { PROMPTMILL_BASE_URL: (await startEmulator()).url },
  signal: AbortSignal.timeout(1_000),
  onEvent: (event: RunEvent) => events.push(event),
};
const { summary } = await run(labels, { ...options, output: 'out.csv' });
summary.stopped satisfies string | null;
summary.rows.completed + (summary.cost ?? 0);
(await run(labels, { rows: [{ id: 1 }], limit: 1 }).summary).usage.total_tokens satisfies number;
(await check(labels, { rows: 'rows.csv' })).rows;
(await retry('out.csv', { job: labels, status: ['failed'], row: [1] })).retried satisfies number;
(await compare('a.csv', 'b.csv')).agreement satisfies number | null;
new UsageError('code', 'message').hint satisfies string | undefined;
new StopError('code', 'message').code satisfies string;

for await (const { answer } of run(labels)) {
  // @ts-expect-error: it is one of the labels
  answer satisfies 'ugly' | null;
  // @ts-expect-error: there may be none
  answer satisfies string;
}
for await (const { answer } of run(json)) {
  // @ts-expect-error: the schema makes a date of it
  answer?.at satisfies string | undefined;
}
for await (const { input } of run(labels, { rows: [{ id: 1, at: new Date() }] })) {
  input satisfies { readonly id: number; readonly at: string };
  // @ts-expect-error: the rows have no such member
  input.review;
}
for await (const { input } of run(labels, { rows: reviews(), limit: 2 }))
  input satisfies { readonly review: string };
// Rows of a file, or of the job, have the columns that they have.
for await (const { input } of run(labels, { rows: 'rows.csv' })) input['review'] satisfies unknown;
for await (const { input } of run(labels, { rows: new Blob([]).stream(), format: 'csv' }))
  input['review'] satisfies unknown;
async function* reviews(): AsyncGenerator<{ review: string }> {}
// @ts-expect-error: no such field
defineJob({ service, promt: 'x' });
// @ts-expect-error: no such field of an answer
defineJob({ service, answer: { labels: ['good', 'bad'], abstain_blow: 0.5 } });
// @ts-expect-error: a number
defineJob({ service, limits: { concurrency: '5' } });
// @ts-expect-error: a job has a service
defineJob({ prompt: 'x' });
// @ts-expect-error: rows go to a file, or to the caller
run(labels, { output: 'out.csv' })[Symbol.asyncIterator];
// @ts-expect-error: no such option
run(labels, { outputs: 'out.csv' });
