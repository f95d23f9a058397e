import { answerReader } from '../answer/answer.js';
import type { RecordedJob } from '../output/reader.js';
import { originColumns } from '../reuse/keys.js';
import type { Settings } from './settings.js';

/** What of a job decides under which names a record has its values. */
export type RecordSettings = Pick<
  Settings,
  'answer' | 'output' | 'reuse' | 'answerSource' | 'parameters' | 'rowParameters'
>;

/**
 * What records of a job have besides the columns of its input. Whoever writes them and whoever reads them back goes by it:
 * each column of a result takes its name away from one of the input.
 */
export function recordOptions(job: RecordSettings): RecordedJob {
  const { output, parameters } = job;
  return {
    spec: job.answer,
    answer: answerReader(job.answer),
    select: output.columns ?? undefined,
    formulas: output.formulas,
    origins: originColumns(job.reuse),
    answerSource: job.answerSource,
    probabilities: output.probabilities,
    logprobs: typeof parameters.logprobs === 'number' || job.rowParameters.includes('logprobs'),
  };
}
