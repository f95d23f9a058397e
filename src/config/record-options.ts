import { answerReader } from '../answer/answer.js';
import type { RecordedJob } from '../output/reader.js';
import { originColumns } from '../reuse/keys.js';
import type { Settings } from './settings.js';

export type RecordSettings = Pick<
  Settings,
  'answer' | 'output' | 'reuse' | 'answerSource' | 'parameters' | 'rowParameters'
>;

/** Writers and readers must use the same options: an input column named like a result is renamed. */
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
