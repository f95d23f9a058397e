import * as z from 'zod';
import { cellReader, type GoldPart, propertyReader } from '../answer/gold.js';
import { type GoldMap, goldMapOf, keyOf } from '../answer/gold-map.js';
import { schemaProblems } from '../answer/json-answer.js';
import { SEPARATOR } from '../answer/label-answer.js';
import { sentSchema } from '../answer/sent-schema.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import { either } from '../core/errors.js';
import { type Parameters, ROLES } from '../core/model.js';
import { OUTPUT_ENDINGS, OUTPUT_FORMATS } from '../output/format.js';
import type { ReuseSettings } from '../prompt/reuse-keys.js';
import { modelBehind, modelProblem } from '../service/catalogue.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import {
  type ByOperation,
  commonOperation,
  OPERATIONS,
  type Operation,
  operationOf,
} from '../service/operation.js';
import {
  anyParametersSchema,
  checkParameters,
  listedLogprobs,
  MOST_CHOICES,
  withLimit,
} from '../service/parameters.js';
import { INPUT_ENDINGS, INPUT_FORMAT_NAMES } from '../source/format.js';
import { cronProblem, timezoneProblem } from './cron.js';
import {
  endpointFields,
  endpointProblems,
  type EndpointParts,
  endpointsOf,
  endpointsSchema,
  pricesSchema,
  routeSchema,
  TIMEOUT,
} from './endpoints-schema.js';
import { labelNames, labelsSchema } from './labels-schema.js';
import { above0, share, whole } from './numbers.js';
import { onInvalidProblems, onInvalidSchema, problem } from './on-invalid-schema.js';

/**
 * The one place for the fields of a job file: meaning, unit and default. `npm run schema` generates
 * `docs/job.schema.json` from it.
 */

const text = z.string().min(1, 'must not be empty');

/** A number: so many. */
export type Concurrency = number | 'auto';

/** `untilAnswered`: before the first calls are answered, because a small server could have a long line of them. */
const AUTO = { most: 100, untilAnswered: 20 };

export const callsAtOnce = (concurrency: Concurrency): typeof AUTO =>
  concurrency === 'auto' ? AUTO : { most: concurrency, untilAnswered: concurrency };

const A_DURATION = 'must be a duration such as 90s, 30m or 8h';

/** A duration such as `90s`, `30m`, `8h` or `1h30m`; see {@link durationMs}. */
const durationSchema = z.string(A_DURATION).regex(/^(?=\d)(\d+h)?(\d+m)?(\d+s)?$/, A_DURATION);

const A_TIER =
  'must be online, flex, batch, or longest times in them such as { batch: 6h } or { batch: 6h, flex: 20m }';

const tierSchema = z
  .union(
    [
      z.enum(['online', 'flex', 'batch'], A_TIER),
      z
        .strictObject({ batch: durationSchema.optional(), flex: durationSchema.optional() })
        .refine(({ batch, flex }) => batch !== undefined || flex !== undefined, A_TIER),
    ],
    { error: A_TIER },
  )
  .default('online')
  .describe(
    'What an answer costs, and how soon it comes. flex (of the chat operation): half the price, slower, and refused at no cost while the service has no ' +
      'capacity; a refused row is tried again, and goes online where limits.deadline needs it. batch: half the price, within 24 hours, in files that the ' +
      'service works through; what has no answer there is called. { batch: 6h, flex: 20m }: at most so long in each, from its first batch or call on, ' +
      'then online. Default: online.',
  );

const batchLimitsSchema = z
  .strictObject({
    requests: whole(1, 100_000).default(50_000).describe('Most requests of an input file. Default: 50000.'),
    megabytes: z
      .number()
      .positive()
      .max(1_000)
      .default(200)
      .describe('Largest size of an input file, in MB. Default: 200.'),
    tokens: whole(1, 2 ** 40)
      .optional()
      .describe('Most prompt tokens of an input file. Default: no limit.'),
    at_once: whole(1, 100).default(4).describe('Most batches at the service at once. Default: 4.'),
  })
  .prefault({})
  .describe('Input files of service.tier: batch.');

const PATHS = either(OPERATIONS.map(({ path }) => path));

const serviceSchema = z
  .strictObject({
    operation: endpointFields.operation.describe(
      'What is called. completions: a prompt is continued, by a model of the completions type. chat: messages are answered, by ' +
        'one of the conversation type.',
    ),
    deployment: text
      .optional()
      .describe(
        'Name of the deployment to call, as in the endpoint path. Its model must be of the type that the operation takes. Needed unless ' +
          'there are endpoints.',
      ),
    model: endpointFields.model.describe(
      'Model behind the deployment, for its tokenizer and its context window, and for the answers of a rehearsal. ' +
        'Default: the one that the deployment is named after; for any other name it is not known.',
    ),
    api_version: endpointFields.api_version.describe(
      'The api-version query parameter. 2022-12-01 has no content filter fields; 2023-09-15-preview has.',
    ),
    style: endpointFields.style.describe(
      `Shape of the endpoint: "deployments" for {base}/{segment}/deployments/<name>/${PATHS} with an api-key header, ` +
        `"openai" for {base}/v1/${PATHS} with bearer authentication and the deployment as "model" in the body.`,
    ),
    tier: tierSchema,
    endpoints: endpointsSchema,
    route: routeSchema,
  })
  .check(({ value: { deployment, endpoints }, issues }) => {
    if (deployment !== undefined || endpoints !== undefined) return;
    issues.push({ code: 'invalid_type', expected: 'string', path: ['deployment'], input: undefined });
  });

/** That of all endpoints. */
const operationIn = ({ endpoints, operation }: z.output<typeof serviceSchema>): Operation =>
  commonOperation(endpoints?.map((each) => each.operation) ?? [operation]);

const inputSchema = z.strictObject({
  path: text.describe(
    `The input file: ${INPUT_ENDINGS.join(' ')}, each also .gz; JSON has one object a line; "-" is standard input.`,
  ),
  format: z.enum(INPUT_FORMAT_NAMES).optional().describe('Format of the input. Default: from the file name.'),
  encoding: text
    .optional()
    .describe('Text encoding, for example windows-1252. Default: the byte-order mark, else UTF-8.'),
  delimiter: z
    .string()
    .length(1)
    .optional()
    .describe(
      'Column separator of a CSV file, for example ";". Default: found out from the header; a comma (a tab for .tsv) unless it ' +
        'says otherwise.',
    ),
  require: z
    .array(text)
    .default([])
    .describe('Columns that must not be empty: a row without one of them is skipped, not sent.'),
  dedupe: z
    .boolean()
    .default(false)
    .describe(
      'Call identical requests (same prompt and parameters, temperature 0) once in a run, and copy the outcome for the ' +
        'other rows: column copied_from. Default: false.',
    ),
  only_new: z
    .boolean()
    .default(false)
    .describe(
      "Carry over what the job's last finished run answered for the same id and the same request, instead of calling " +
        'again: column carried_from. Default: false.',
    ),
  done: z
    .union([text, z.array(text)], 'must be a path or a list of paths')
    .optional()
    .describe(
      'Files with answers that are known already, which are not called again: results of a hosted batch and its error file, output of vllm ' +
        'run-batch, or an earlier output. A line belongs to the row with its custom_id, else id, else number. Column tier says done. Default: none.',
    ),
  id: text
    .optional()
    .describe(
      'Column that identifies a row, for only_new, drift and promptmill compare. Default for only_new: the first column; in JSONL custom_id, else id, else the ' +
        'content alone.',
    ),
});

const asked = (what: string) =>
  share.optional().describe(`${what} Needs answer.gold. Default: nothing is asked.`);

const requireSchema = z
  .strictObject({
    valid: share
      .default(0.5)
      .describe(
        'Share of the completed rows whose answer must be valid: labels, a number of the range, JSON of the schema. 0 asks for nothing. ' +
          'Default: 0.5.',
      ),
    answered: share
      .optional()
      .describe(
        'Share of the completed rows that must have an answer: valid, and not left out because the model is unsure. Default: ' +
          'at least one of them where the job abstains.',
      ),
    accuracy: asked('Share of the completed rows with gold whose answer must be right.'),
    f1: asked('Macro F1 that the completed rows with gold must have.'),
  })
  .prefault({})
  .describe(
    'What the answers must reach. A run that finishes below it has its output, and exit code 4; with limits.canary it stops ' +
      'when the first rows are below it.',
  );

const goldValue = z.union([z.string(), z.number(), z.boolean()]);

const goldColumn = z.strictObject({
  column: text.describe('The column of the input.'),
  map: z
    .record(
      z.string(),
      z.union([goldValue, z.array(goldValue).min(1)], 'must be a value or a list of values'),
    )
    .optional()
    .describe(
      'Answer → the values of the column that stand for it: { positive: [4, 5], negative: [1, 2] }. A row with another value ' +
        'has no right answer. Default: the column holds answers.',
    ),
});

const answerShared = {
  gold: z
    .union(
      [
        text,
        goldColumn,
        z.strictObject({
          columns: z
            .record(
              z.string(),
              z.union([text, goldColumn], 'must be the name of a column, or a group with column and map'),
            )
            .refine((columns) => Object.keys(columns).length > 0, 'must name a property')
            .describe(
              'Property of answer.json → the column with its right values: { sentiment: sentiment_true }.',
            ),
        }),
      ],
      'must be the name of a column, a group with column and map, or one with columns',
    )
    .optional()
    .describe(
      'Column of the input with the right answer, where it is known: an answer as the job has them, or JSON with some of the ' +
        'properties; or a column with values that stand for answers, and the map of them; or a column for each property of JSON. The summary then has scores. The column may be ' +
        'empty, and is not sent unless the prompt names it.',
    ),
  require: requireSchema,
  send_schema: z
    .boolean()
    .optional()
    .describe(
      'In the chat operation: send the schema of the answer with each request (response_format), so that the service keeps to it; strict ' +
        'where the schema allows it. What comes is checked all the same. Default: true for json, false for labels and number.',
    ),
  on_invalid: onInvalidSchema.optional(),
};

const A_NUMBER_OF_VOTES = `must be a whole number from 2 to ${MOST_CHOICES}, the most choices that the service gives`;

const votesSchema = z
  .int(A_NUMBER_OF_VOTES)
  .min(2, A_NUMBER_OF_VOTES)
  .max(MOST_CHOICES, A_NUMBER_OF_VOTES)
  .optional()
  .describe(
    'Each request asks for so many choices (n), each of which is billed. The answer is what most of them say, and the column ' +
      'confidence the share of the votes for it. Needs a temperature above 0. Default: one choice.',
  );

const answerSchema = z
  .union(
    [
      z
        .strictObject({
          ...answerShared,
          labels: labelsSchema,
          confidence: z
            .literal('logprobs', 'must be logprobs')
            .optional()
            .describe(
              'How sure the model is of its label goes to the column confidence. logprobs: by the log probabilities of the ' +
                'first token, of which each request asks for 5, at temperature 0. Default: not asked.',
            ),
          votes: votesSchema,
          abstain_below: z
            .number('must be a probability between 0 and 1')
            .gt(0, 'must be above 0')
            .max(1, 'must be at most 1')
            .optional()
            .describe(
              'With confidence or votes: a label of which the model is less sure is no answer. The row stays completed, its answer is ' +
                'empty, abstained is true, and it goes to <name>.review.csv beside the output. Default: every label is an answer.',
            ),
          abstain: z
            .strictObject({
              accuracy: z
                .number('must be a share between 0 and 1')
                .gt(0, 'must be above 0')
                .max(1, 'must be at most 1')
                .describe('Share of the answers that is to be right.'),
            })
            .optional()
            .describe(
              'With confidence or votes, and gold, in place of abstain_below: when the run has all rows, labels are left out below the lowest ' +
                'confidence with which the others reach this accuracy on the rows with gold. Default: every label is an answer.',
            ),
          multiple: z
            .boolean()
            .default(false)
            .describe(
              'A text may name several labels. The answer column holds them in the order of the job, a;b in CSV and a list ' +
                'in JSONL, or none (an empty list) where the text says so. Default: false.',
            ),
        })
        .check(({ value: { labels, multiple }, issues }) => {
          const names = multiple ? labelNames(labels) : [];
          const place = names.findIndex(([label]) => label.includes(SEPARATOR));
          const [input] = names[place] ?? [];
          if (input === undefined) return;
          const message = `has a "${SEPARATOR}", which stands between the labels of a row: take it out of the name`;
          issues.push({
            code: 'custom',
            path: ['labels', Array.isArray(labels) ? place : input],
            message,
            input,
          });
        }),
      z.strictObject({
        ...answerShared,
        number: z
          .strictObject({
            min: z.number().optional().describe('The least that it may be. Default: no bound.'),
            max: z
              .number()
              .optional()
              .describe(
                'The most that it may be; also the scale that a text may name ("4/5", "4 out of 5"). Default: no bound.',
              ),
            integer: z.boolean().default(false).describe('It must be a whole number. Default: false.'),
          })
          .check(({ value: { min, max }, issues }) => {
            if (min === undefined || max === undefined || min <= max) return;
            const message = `must be at least answer.number.min, ${min}`;
            issues.push({ code: 'custom', path: ['max'], message, input: max });
          })
          .describe('The answer is a number, of this range.'),
        votes: votesSchema,
      }),
      z.strictObject({
        ...answerShared,
        json: z
          .record(z.string(), z.json())
          .check(({ value, issues }) => {
            for (const { path, ...problem } of schemaProblems(value))
              issues.push({ code: 'custom', input: undefined, ...problem, path: [...path] });
          })
          .describe('A JSON Schema: the answer is JSON; each top-level property becomes a column.'),
      }),
    ],
    'must be a group with labels, number or json',
  )
  .describe('How the answer is read from the text of the completion. Default: the text itself.');

const outputSchema = z.strictObject({
  path: text
    .optional()
    .describe(
      `The output file, ${OUTPUT_ENDINGS}; {{date}} and {{run}} are filled in; "-" is standard output. ` +
        'Default: out/<job name> with the kind of the input.',
    ),
  format: z
    .enum(OUTPUT_FORMATS.map(({ name }) => name))
    .optional()
    .describe(
      'batch: lines as the results of a batch have them, for programs that read those; the path ends in .jsonl. Default: by the ending ' +
        'of the path.',
    ),
  columns: z
    .array(text)
    .min(1)
    .optional()
    .describe(
      'Columns of the output, in this order, and groups of them: input, answer, evidence (answer_source, confidence, p_<label>, ' +
        'abstained), tokens, filters, call (model to latency_ms), error. -name leaves a column or a group out; a list that begins ' +
        'so begins with all. Default: all.',
    ),
  formulas: z
    .enum(['protect', 'raw'])
    .default('protect')
    .describe(
      "protect: a CSV cell that a spreadsheet would run as a formula gets a leading '. raw: left as it is.",
    ),
  probabilities: z
    .boolean()
    .default(false)
    .describe(
      'With answer.confidence or answer.votes of labels: a column p_<label> with the probability of each label; in JSONL ' +
        'answer_probabilities. Default: false.',
    ),
});

/** @param what completes the phrase "this many rows …" */
const mostRows = (what: string) =>
  above0()
    .optional()
    .describe(
      `Stop when this many rows ${what} (1 or more), or this fraction of the rows so far (below 1). Default: no limit.`,
    );

const limitsSchema = z.strictObject({
  concurrency: z
    .union([whole(1, 10_000), z.literal('auto')], 'must be auto, or a whole number from 1 to 10000')
    .default('auto')
    .describe(
      `Most calls in flight at once in one process. auto: up to ${AUTO.most}, and fewer where more bring no more answers. ` +
        'Default: auto.',
    ),
  prompts_per_request: whole(1, 2048)
    .default(1)
    .describe(
      'Rows that share one request as a list of prompts, where their parameters are equal: the way to more rows under ' +
        'a quota of requests. Default: 1.',
    ),
  requests_per_minute: whole(1)
    .optional()
    .describe(
      'Quota of requests a minute of the deployment, shared by all runs and workers that use it. Default: found out.',
    ),
  tokens_per_minute: whole(1)
    .optional()
    .describe('Quota of tokens a minute of the deployment, shared likewise. Default: found out.'),
  token_estimate: z
    .enum(['full', 'learned'])
    .default('full')
    .describe(
      'What a request counts against tokens_per_minute. full: its prompt + max_tokens × candidates (best_of, or answer.votes), on which the hosted ' +
        'service admits it. learned: its prompt + what answers took so far, for a service that counts what it bills. Default: full.',
    ),
  attempts: whole(1, 100)
    .default(6)
    .describe('Calls for one row before it ends failed; waits for the quota do not count. Default: 6.'),
  unknown_outcome: z
    .enum(['retry', 'hold'])
    .default('retry')
    .describe(
      'A row whose call was cut off by a crash, a broken connection or a timeout may have been billed. retry: it is called ' +
        'again, and counted in calls.repeated. hold: it ends failed with the code outcome_unknown, so that nothing is paid ' +
        'for twice. Default: retry.',
    ),
  timeout_seconds: above0(86_400)
    .optional()
    .describe(
      `Longest time for one call, from the request to the last byte, in seconds. Default: ${TIMEOUT.online}; with service.tier: flex ${TIMEOUT.flex}.`,
    ),
  budget: z
    .strictObject({
      tokens: whole(1)
        .optional()
        .describe(
          'Tokens that a run may be billed for, prompts and completions together. Default: no limit.',
        ),
      cost: above0()
        .optional()
        .describe('Money that a run may cost, in the currency of prices, which it needs. Default: no limit.'),
    })
    .optional()
    .describe(
      'A run stops, resumably, before it passes one of these. All its executions and workers count together.',
    ),
  stop_after_failures: z
    .union(
      [
        z.strictObject({
          failures: mostRows('failed or have an invalid answer'),
          abstained: mostRows('abstained'),
        }),
        z.number().positive('must be above 0'),
      ],
      'must be a number above 0, or a group with failures and abstained',
    )
    .optional()
    .describe(
      'Stop when this many rows failed or have an invalid answer (1 or more), or this fraction of the rows so far (below 1). ' +
        'A group has a limit for rows that abstain as well.',
    ),
  deadline: durationSchema
    .optional()
    .describe(
      'Stop, resumably, when a run has worked for this time since its command was started: a duration such as 90s, ' +
        '30m or 8h.',
    ),
  canary: whole(1, 5_000)
    .optional()
    .describe(
      'The first so many rows go ahead of the rest; when none of them has a usable answer, or fewer than answer.require asks for, ' +
        'the run stops. Default: none.',
    ),
  batch: batchLimitsSchema,
  give_up_after: durationSchema
    .default('1h')
    .describe(
      'Stop, resumably, when no row became known for this time: the service is down, the queue is away, or nothing ' +
        'moves. Waits that the service asks for do not count. Default: 1h.',
    ),
  chunk_size: whole(1, 1000)
    .optional()
    .describe('Rows in one queue entry. Default: concurrency, at most 100; whole requests.'),
});

const sound =
  (problem: (value: string) => string | null) =>
  (context: z.core.ParsePayload<string>): void => {
    const message = problem(context.value);
    if (message !== null) context.issues.push({ code: 'custom', message, input: context.value });
  };

const scheduleSchema = z.strictObject({
  cron: text
    .check(sound(cronProblem))
    .describe(
      'Cron expression of five fields: minute, hour, day of the month, month, day of the week; of six with the seconds ' +
        'first.',
    ),
  timezone: text
    .check(sound(timezoneProblem))
    .optional()
    .describe('IANA time zone, such as Europe/Berlin. Default: the time zone of the machine.'),
});

const driftSchema = z.strictObject({
  against: z
    .literal('last')
    .default('last')
    .describe(
      'last: the last finished run of the job with the same output path, another date or run in it included. Default: last.',
    ),
  alarm: share.describe(
    'Share of the rows completed or filtered in both runs whose answer may be another; above it the run ends with exit code 4.',
  ),
});

const onFinishSchema = z
  .strictObject({
    command: z
      .array(text)
      .min(1, 'must name a program')
      .optional()
      .describe(
        'A program and its arguments, started without a shell. It gets the summary on standard input, and PROMPTMILL_STATUS ' +
          '(finished or stopped), PROMPTMILL_EXIT_CODE, PROMPTMILL_JOB, PROMPTMILL_RUN, PROMPTMILL_OUTPUT and PROMPTMILL_SUMMARY in its ' +
          'environment, but no key.',
      ),
    timeout: durationSchema
      .default('60s')
      .describe('Time after which the command is ended, such as 90s or 5m. Default: 60s.'),
    post: z
      .string()
      .regex(/^[A-Za-z_]\w*$/, 'must be the name of an environment variable, which holds the address')
      .optional()
      .describe(
        'Name of an environment variable with an http or https address, which gets the summary as JSON by POST.',
      ),
  })
  .refine((hooks) => hooks.command !== undefined || hooks.post !== undefined, 'needs a command or a post');

/** Parameters that a row may not change, by the field of the job that fixes them. */
const FIXED_PARAMETERS = {
  confidence: {
    names: ['temperature', 'logprobs', 'top_logprobs', 'echo'],
    where: 'where answer.confidence is logprobs',
  },
  votes: {
    names: ['n', 'best_of', 'temperature', 'logprobs', 'top_logprobs'],
    where: 'where answer.votes is given',
  },
} as const;

function confidenceProblems(job: ConfidenceParts) {
  const { answer, output } = job;
  const { confidence, votes } = sureness(answer);
  if (confidence !== undefined && votes !== undefined)
    return [problem('answer.votes', 'cannot stand beside answer.confidence: take one out', votes)];
  if (confidence !== undefined) return logprobsProblems(job);
  if (votes !== undefined) {
    const isNumber = answer !== undefined && !('labels' in answer);
    return [
      ...(output.probabilities && isNumber
        ? [problem('output.probabilities', 'needs answer.labels', true)]
        : []),
      ...votesProblems(job, votes),
    ];
  }
  const fields = answer !== undefined && 'labels' in answer ? answer : null;
  const unsure = {
    'output.probabilities': output.probabilities || undefined,
    'answer.abstain_below': fields?.abstain_below,
    'answer.abstain': fields?.abstain,
  };
  return Object.entries(unsure).flatMap(([field, input]) =>
    input === undefined ? [] : [problem(field, 'needs answer.confidence or answer.votes', input)],
  );
}

function sureness(answer: ConfidenceParts['answer']) {
  const votes = answer !== undefined && 'votes' in answer ? answer.votes : undefined;
  const confidence = answer !== undefined && 'confidence' in answer ? answer.confidence : undefined;
  return { votes, confidence };
}

function logprobsProblems({ answer, parameters, row_parameters }: ConfidenceParts) {
  const { temperature, logprobs, echo } = parameters;
  const listed = listedLogprobs(parameters);
  const field = typeof logprobs === 'number' ? 'logprobs' : 'top_logprobs';
  const must = (field: string, what: string, input: unknown) =>
    problem(
      `parameters.${field}`,
      `must be ${what}, or left out, where answer.confidence is logprobs`,
      input,
    );
  return [
    ...severalProblems(
      answer,
      'where answer.confidence is logprobs: the first token tells of one label only',
    ),
    ...(temperature ? [must('temperature', '0', temperature)] : []),
    ...(listed !== null && listed < LISTED ? [must(field, String(LISTED), listed)] : []),
    ...(echo ? [must('echo', 'false', echo)] : []),
    ...fixedProblems(row_parameters, FIXED_PARAMETERS.confidence),
  ];
}

function votesProblems({ answer, parameters, row_parameters }: ConfidenceParts, votes: number) {
  const { temperature, n, best_of, logprobs } = parameters;
  const without = (field: string, why: string, input: unknown) =>
    typeof input === 'number' || input === true
      ? [problem(`parameters.${field}`, `must be left out where answer.votes is given: ${why}`, input)]
      : [];
  const same = 'must be above 0, or left out, where answer.votes is given: at 0 all votes are the same';
  return [
    ...severalProblems(answer, 'where answer.votes is given: the votes are for one label'),
    ...(temperature === 0 ? [problem('parameters.temperature', same, temperature)] : []),
    ...without('n', `each request has n: ${votes}`, n),
    ...without('best_of', 'all choices vote', best_of),
    ...without('logprobs', 'a record has those of one choice only', logprobs),
    ...fixedProblems(row_parameters, FIXED_PARAMETERS.votes),
  ];
}

const severalProblems = (answer: ConfidenceParts['answer'], why: string) =>
  answer !== undefined && 'labels' in answer && answer.multiple
    ? [problem('answer.multiple', `cannot be true ${why}`, true)]
    : [];

const fixedProblems = (
  names: readonly string[],
  fixed: { readonly names: readonly string[]; readonly where: string },
) =>
  names.flatMap((name, i) => {
    if (!fixed.names.includes(name)) return [];
    return [{ path: ['row_parameters', i], message: `cannot be the row's own ${fixed.where}`, input: name }];
  });

function abstainProblems({ answer }: Pick<ConfidenceParts, 'answer'>) {
  if (answer === undefined || !('labels' in answer) || answer.abstain === undefined) return [];
  const message =
    answer.abstain_below !== undefined
      ? 'cannot stand beside answer.abstain_below: take one of them out'
      : answer.gold === undefined && 'needs answer.gold, on which the threshold is found';
  return message ? [problem('answer.abstain', message, answer.abstain)] : [];
}

function goldProblems({ answer }: Pick<ConfidenceParts, 'answer'>) {
  const gold = answer?.gold;
  if (answer === undefined || typeof gold !== 'object') return [];
  const spec = answerSpec(answer);
  const at = (path: readonly string[], message: string, input?: unknown) => ({
    ...{ path: ['answer', 'gold', ...path], message, input },
  });
  if ('columns' in gold) {
    if (spec.kind !== 'json')
      return [at(['columns'], 'needs answer.json, whose properties it names', gold.columns)];
    return partsOf(gold.columns).flatMap(({ property, map }) => {
      const read = propertyReader(spec, property);
      if (read === null) return [at(['columns', property], 'is no property of answer.json')];
      const wrong = (name: string) => (read(name) === undefined ? `is no ${property}` : null);
      return mapProblems(map ?? [], wrong, (path, ...rest) =>
        at(['columns', property, 'map', ...path], ...rest),
      );
    });
  }
  if (gold.map === undefined) return [];
  if (spec.kind === 'json')
    return [at(['map'], 'needs labels or a number: JSON is compared as it is', gold.map)];
  const read = cellReader(spec);
  const wrong = (name: string) => {
    const right = read(name);
    return typeof right === 'string' ? right : null;
  };
  return mapProblems(goldMapOf(gold.map), wrong, (path, ...rest) => at(['map', ...path], ...rest));
}

/** @param wrong what an answer is not, `null` for a sound one */
function mapProblems<P>(
  map: GoldMap,
  wrong: (answer: string) => string | null,
  at: (path: readonly string[], message: string, input?: unknown) => P,
): P[] {
  const owners = new Map<string, string>();
  return map.flatMap(([cell, name]) => {
    const problem = wrong(name);
    if (problem !== null) return [at([name], problem)];
    const before = owners.get(keyOf(cell)) ?? name;
    owners.set(keyOf(cell), before);
    return before === name ? [] : [at([name], `has a value that ${JSON.stringify(before)} has, too`, cell)];
  });
}

function scoreProblems({ answer }: Pick<ConfidenceParts, 'answer'>) {
  return (['accuracy', 'f1'] as const).flatMap((name) => {
    const input = answer?.require[name];
    if (answer === undefined || input === undefined) return [];
    const message =
      answer.gold === undefined
        ? 'needs answer.gold, the column with the right answers'
        : name === 'f1' && 'json' in answer && 'needs labels or a number: JSON has no F1';
    return message ? [problem(`answer.require.${name}`, message, input)] : [];
  });
}

function needProblems({ service, answer, limits, prices, parameters, row_parameters }: JobParts) {
  const { stop_after_failures: most, budget } = limits;
  const abstained = typeof most === 'object' ? most.abstained : undefined;
  const abstains = answer !== undefined && 'labels' in answer && answer.abstain_below !== undefined;
  const noTokens = answer !== undefined && parameters.max_tokens === 0;
  return [
    ...(abstained === undefined || abstains
      ? []
      : [problem('limits.stop_after_failures.abstained', 'needs answer.abstain_below', abstained)]),
    ...(budget?.cost === undefined || prices !== undefined || service.endpoints?.every(({ prices }) => prices)
      ? []
      : [
          problem(
            'limits.budget.cost',
            `needs prices, without which tokens have no cost, got ${budget.cost}: add a line such as prices: { prompt: 0.0015, completion: 0.002 }`,
            budget.cost,
          ),
        ]),
    ...(noTokens && !row_parameters.includes('max_tokens')
      ? [
          problem(
            'parameters.max_tokens',
            'must be at least 1 where the job has an answer: with 0 no answer is written',
            0,
          ),
        ]
      : []),
  ];
}

interface ConfidenceParts {
  readonly answer?: z.output<typeof answerSchema> | undefined;
  readonly parameters: Parameters;
  readonly row_parameters: readonly string[];
  readonly output: z.output<typeof outputSchema>;
}

/** What the operation of the job does not take. */
function operationProblems(parts: OperationParts) {
  const { service, prompt, system, messages, answer, parameters, row_parameters } = parts;
  const operation = operationIn(service);
  const operations = (service.endpoints ?? [service]).map(operationOf);
  const isMixed = operations.some((each) => each !== operation);
  const takesMessages = operation.asked === 'messages';
  const asked = { system, messages };
  const given = (['system', 'messages'] as const).filter((field) => asked[field] !== undefined);
  const checked = checkParameters(parameters, operation.parameters);
  const model = service.model === undefined ? null : modelProblem(service.model, operation);
  const format = answer?.send_schema === true ? parameters.response_format : undefined;
  const isTiered = service.tier !== 'online' && service.endpoints === undefined;
  const mixed = takesMessages && messages !== undefined ? operation.promptOf(messages) : null;
  const beside = (field: string, other: string, remedy: string) => [
    problem(field, `cannot stand beside ${other}: ${remedy}`, asked),
  ];
  return [
    ...(model === null ? [] : [problem('service.model', model, service.model)]),
    ...(takesMessages
      ? []
      : given.map((field) =>
          problem(
            field,
            `needs service: { operation: chat }${service.endpoints ? ' at each endpoint' : ''}: the ${operation.name} operation takes one text, the prompt`,
            asked,
          ),
        )),
    ...(mixed !== null && 'problem' in mixed
      ? [problem('messages', mixed.problem.replace(/^messages /, ''), asked)]
      : []),
    ...(answer?.send_schema === true && operations.every(({ formatted }) => formatted === null)
      ? [
          problem(
            'answer.send_schema',
            'needs service: { operation: chat }: the other has no field for it',
            true,
          ),
        ]
      : []),
    ...(isTiered && flexOf(service) !== null && !operation.hasTiers
      ? [
          problem(
            'service.tier',
            'needs service: { operation: chat }: text completions have no flex tier, so take it out',
            service.tier,
          ),
        ]
      : []),
    ...(isTiered && (parameters.service_tier ?? parameters.extra_body?.['service_tier']) !== undefined
      ? beside('parameters.service_tier', 'service.tier', 'take one of them out')
      : []),
    ...(isTiered && row_parameters.includes('service_tier')
      ? beside('row_parameters', 'service.tier', 'take service_tier out of the list')
      : []),
    ...(format === undefined
      ? []
      : beside('answer.send_schema', 'parameters.response_format', 'take one of them out')),
    ...(messages !== undefined && prompt !== undefined
      ? beside('messages', 'prompt', 'write the prompt as the last message, { role: user, content: … }')
      : []),
    ...(messages !== undefined && system !== undefined
      ? beside('system', 'messages', 'write it as the first message, { role: system, content: … }')
      : []),
    ...(isMixed && parameters.max_tokens === undefined
      ? [
          problem(
            'parameters.max_tokens',
            'must be given where the endpoints have both operations, whose defaults differ',
            parameters,
          ),
        ]
      : []),
    ...(checked.ok ? [] : checked.problems).map(({ path, why }) => problem(`parameters.${path}`, why)),
    ...(parameters.max_tokens !== undefined && parameters.max_completion_tokens !== undefined
      ? beside('parameters.max_tokens', 'max_completion_tokens', 'they are the same limit, keep one')
      : []),
    ...(typeof parameters.top_logprobs === 'number' && parameters.logprobs !== true
      ? [problem('parameters.top_logprobs', 'needs logprobs: true', parameters.top_logprobs)]
      : []),
    ...row_parameters.flatMap((name, i) => {
      if (Object.hasOwn(operation.parameters.shape, name)) return [];
      const message = isMixed
        ? 'cannot be set where the endpoints have both operations: take it out'
        : `is no parameter of the ${operation.name} operation: take it out`;
      return [{ path: ['row_parameters', i], message, input: name }];
    }),
  ];
}

interface OperationParts extends Pick<ConfidenceParts, 'answer' | 'parameters' | 'row_parameters'> {
  readonly service: z.output<typeof serviceSchema>;
  readonly prompt?: string | undefined;
  readonly system?: string | undefined;
  readonly messages?: readonly object[] | undefined;
}

interface JobParts extends ConfidenceParts {
  readonly service: z.output<typeof serviceSchema>;
  readonly limits: z.output<typeof limitsSchema>;
  readonly prices?: unknown;
}

const jobFileSchema = z
  .strictObject({
    name: text
      .regex(/^[\w.-]+$/, 'may hold letters, digits, ".", "_" and "-"')
      .optional()
      .describe("Name of the job. Default: the file's name."),
    service: serviceSchema.describe('What to call.'),
    input: inputSchema.describe('Where the rows come from.'),
    prompt: text
      .optional()
      .describe(
        'Mustache template; {{ column }} is filled in from the row. In the chat operation the message of the user. Default: the row\'s "prompt" field.',
      ),
    system: text.optional().describe('Template of the system message, in the chat operation. Default: none.'),
    messages: z
      .array(z.strictObject({ role: z.enum(ROLES), content: text.describe('Mustache template.') }))
      .min(1)
      .optional()
      .describe('The whole conversation, in the chat operation, in place of system and prompt.'),
    parameters: anyParametersSchema.prefault({}).describe('Fields of every request.'),
    row_parameters: z
      .array(anyParametersSchema.keyof())
      .default([])
      .describe('Columns that override the parameter of the same name for their row.'),
    answer: answerSchema.optional(),
    output: outputSchema.prefault({}).describe('Where the records go.'),
    limits: limitsSchema.prefault({}).describe('How fast, how long, how often.'),
    prices: z
      .union([pricesSchema, text], 'must be a group with prompt and completion, or the name of a file')
      .optional()
      .describe(
        'Prices per 1,000 tokens, for the cost in the summary; or a YAML file that several jobs share, with a line for each ' +
          'deployment or model: NAME: { prompt: 0.0015, completion: 0.002 }',
      ),
    schedule: scheduleSchema.optional().describe('When `promptmill serve` runs the job.'),
    drift: driftSchema
      .optional()
      .describe(
        'Compare the answers of each run with those of the last one, row by row. Rows are matched by input.id; without it by row number, if ' +
          'both runs have the same input.',
      ),
    report: z
      .boolean()
      .default(true)
      .describe(
        'Write a report beside the output when the run has finished: reviews.report.html. Default: true.',
      ),
    on_finish: onFinishSchema
      .optional()
      .describe(
        'What to do when a run has finished or stopped early; not when it was interrupted by a signal.',
      ),
  })
  .check(({ value, issues }) => {
    for (const found of [
      ...endpointProblems(value),
      ...(issues.length > 0 ? [] : operationProblems(value)),
      ...(issues.length > 0 ? [] : goldProblems(value)),
      ...scoreProblems(value),
      ...needProblems(value),
      ...confidenceProblems(value),
      ...onInvalidProblems(value),
      ...abstainProblems(value),
    ])
      issues.push({ code: 'custom', ...found });
  })
  .describe('A Promptmill job');

type JobFile = z.output<typeof jobFileSchema>;

export function jobJsonSchema(): Record<string, unknown> {
  return { ...z.toJSONSchema(jobFileSchema, { io: 'input' }), title: 'Promptmill job' };
}

/** A checked job file, in the names of the code: times in milliseconds, `null` for a missing value. */
export const jobSchema = jobFileSchema.transform((file) => {
  const { service, input, answer, output, limits, drift = null, ...others } = file;
  const {
    prompt = null,
    system = null,
    messages = null,
    parameters,
    row_parameters: rowParameters,
    on_finish: onFinish,
    ...job
  } = others;
  const { format, encoding, delimiter, require, dedupe, only_new: onlyNew, id = null } = input;
  const { confidence, votes } = sureness(answer);
  const onInvalid = onInvalidOf(answer);
  const operation = operationIn(service);
  const endpoints = endpointsOf(file);
  const parametersFor = ({ defaults, listed, formatted }: Operation): Parameters => ({
    ...defaults,
    ...withLimit(parameters),
    ...schemaParameters(file, formatted),
    ...(votes ? { n: votes } : confidence && { ...listed(LISTED), temperature: 0 }),
  });
  return {
    ...job,
    /** Of the endpoints. Rows are made and read for what they have in common. */
    operations: [...new Set(endpoints.map(({ spec }) => spec.operation))],
    /** What rows are counted for: no other endpoint has a smaller context window. */
    endpoint: endpoints.map(({ spec }) => spec).reduce(narrower),
    endpoints,
    route: service.route,
    /** Null: no call asks for the flex tier. `forMs`: longest time in it, null for no end. */
    flex: flexOf(service),
    /** The same of the batch tier. */
    batch: tierOf(service, 'batch'),
    input: {
      path: input.path,
      ...(format !== undefined && { format }),
      ...(encoding !== undefined && { encoding }),
      ...(delimiter !== undefined && { delimiter }),
      require,
      /** Files with answers that are known. */
      done: typeof input.done === 'string' ? [input.done] : (input.done ?? []),
    },
    reuse: { dedupe, onlyNew, id } satisfies ReuseSettings,
    prompt,
    system,
    messages,
    parameters: parametersFor(operation),
    /** The same, as each operation of the endpoints sends them. */
    parametersByOperation: Object.fromEntries(
      endpoints.map(({ spec }) => [spec.operation, parametersFor(operationOf(spec))]),
    ) as ByOperation<Parameters>,
    rowParameters,
    fixedParameters: votes ? FIXED_PARAMETERS.votes : confidence ? FIXED_PARAMETERS.confidence : null,
    answer: answerSpec(answer),
    /** How invalid answers are handled; `null` when they are not. */
    onInvalid,
    answerSource: onInvalid !== null || votes !== undefined,
    /** Requirements for the answers; `null` when the answer is free text. May change between executions. */
    require: answer?.require ?? null,
    ...goldOf(answer),
    output: { ...output, columns: output.columns ?? null },
    limits: {
      concurrency: limits.concurrency,
      chunkSize: limits.chunk_size ?? null,
      promptsPerRequest: Math.min(limits.prompts_per_request, operation.promptsPerCall),
      /** The operation takes fewer prompts in a request than the job asks for. */
      lessPacked: limits.prompts_per_request > operation.promptsPerCall,
      /** Of all endpoints together; null where one does not state it. */
      requestsPerMinute: sumOfAll(endpoints.map(({ quota }) => quota.requestsPerMinute)),
      tokensPerMinute: sumOfAll(endpoints.map(({ quota }) => quota.tokensPerMinute)),
      tokenEstimate: limits.token_estimate,
      attempts: limits.attempts,
      unknownOutcome: limits.unknown_outcome,
      /** Milliseconds in which no row becomes known, after which a run stops. */
      giveUpMs: durationMs(limits.give_up_after),
      /** Rows that may be without an answer, or a fraction of the rows so far. */
      stopAfterFailures: mostUnanswered(limits.stop_after_failures),
      /** Longest time of one execution, in milliseconds. */
      deadlineMs: limits.deadline === undefined ? null : durationMs(limits.deadline),
      /** Most that all executions of the run together may be billed. */
      budget: budgetOf(limits),
      /** Rows that run first and must be good enough; 0 for none. */
      canary: limits.canary ?? 0,
      /** Most of an input file, and input files at once. */
      batch: {
        requests: limits.batch.requests,
        bytes: limits.batch.megabytes * 1e6,
        tokens: limits.batch.tokens ?? null,
        atOnce: limits.batch.at_once,
      },
    },
    /** May change between executions. */
    drift,
    ...(onFinish && { onFinish }),
  };
});

export type Job = z.output<typeof jobSchema>;

/** A job with its name (by default that of its file), and the file if it comes from one. */
export type NamedJob = Job & {
  readonly name: string;
  readonly file?: string;
  /** Other values for fields of the file, as `path=value`. */
  readonly set?: readonly string[];
};

type Tiered = Pick<EndpointParts['service'], 'tier'>;

function tierOf({ tier }: Tiered, of: 'flex' | 'batch'): { readonly forMs: number | null } | null {
  if (tier === of) return { forMs: null };
  const time = typeof tier === 'object' ? tier[of] : undefined;
  return time === undefined ? null : { forMs: durationMs(time) };
}

const flexOf = (service: Tiered) => tierOf(service, 'flex');

const windowOf = (spec: EndpointSpec): number => modelBehind(spec)?.contextWindow ?? Number.POSITIVE_INFINITY;

const narrower = (a: EndpointSpec, b: EndpointSpec): EndpointSpec => (windowOf(b) < windowOf(a) ? b : a);

const sumOfAll = (quotas: readonly (number | null)[]): number | null =>
  quotas.reduce((sum, quota) => (sum === null || quota === null ? null : sum + quota));

/** A plain number counts failures. */
const mostUnanswered = (most: JobFile['limits']['stop_after_failures']) =>
  typeof most === 'number' ? { failures: most } : (most ?? {});

function goldOf(answer: JobFile['answer']): {
  readonly gold: string | null;
  readonly goldMap: GoldMap | null;
  readonly goldParts: readonly GoldPart[] | null;
} {
  const { gold = null } = answer ?? {};
  if (gold === null || typeof gold === 'string') return { gold, goldMap: null, goldParts: null };
  if ('column' in gold)
    return {
      gold: gold.column,
      goldMap: gold.map === undefined ? null : goldMapOf(gold.map),
      goldParts: null,
    };
  const parts = partsOf(gold.columns);
  return { gold: parts.map(({ column }) => column).join(', '), goldMap: null, goldParts: parts };
}

type NamedColumns = Extract<NonNullable<JobFile['answer']>['gold'], { readonly columns: unknown }>['columns'];

const partsOf = (columns: NamedColumns): GoldPart[] =>
  Object.entries(columns).map(([property, named]) => {
    const { column, map } = typeof named === 'string' ? { column: named, map: undefined } : named;
    return { property, column, map: map === undefined ? null : goldMapOf(map) };
  });

/** Null for an empty budget. */
function budgetOf({
  budget,
}: JobFile['limits']): { readonly tokens: number | null; readonly cost: number | null } | null {
  if (budget?.tokens === undefined && budget?.cost === undefined) return null;
  return { tokens: budget.tokens ?? null, cost: budget.cost ?? null };
}

function schemaParameters({ answer, parameters }: JobFile, formatted: Operation['formatted']): Parameters {
  const isUsual = answer !== undefined && 'json' in answer && parameters.response_format === undefined;
  const sent = (answer?.send_schema ?? isUsual) ? sentSchema(answerSpec(answer)) : null;
  return sent === null || formatted === null ? {} : formatted(sent.schema, sent.strict);
}

/** As many alternatives per token as every operation reports. */
const LISTED = 5;

function answerSpec(answer: JobFile['answer']): AnswerSpec {
  if (answer === undefined) return { kind: 'text' };
  if ('labels' in answer) {
    const names = labelNames(answer.labels);
    const synonyms = names.map(([, ...others]) => others);
    return {
      kind: 'labels',
      labels: names.map(([label]) => label),
      ...(synonyms.some((others) => others.length > 0) && { synonyms }),
      ...(answer.multiple && { multiple: true }),
      ...(answer.confidence && { confidence: answer.confidence }),
      ...(answer.votes !== undefined && { votes: answer.votes }),
      ...(answer.abstain_below !== undefined && { abstainBelow: answer.abstain_below }),
      ...(answer.abstain !== undefined && { abstainFor: answer.abstain.accuracy }),
    };
  }
  if ('number' in answer) {
    const { min, max, integer } = answer.number;
    return {
      kind: 'number',
      ...(min !== undefined && { min }),
      ...(max !== undefined && { max }),
      ...(integer && { integer: true }),
      ...(answer.votes !== undefined && { votes: answer.votes }),
    };
  }
  return { kind: 'json', schema: answer.json, ...(answer.on_invalid?.repair && { repair: true }) };
}

/**
 * `askAgain` times the own deployment with `prompt` (`null`: the default), then `deployment` (`null`: none).
 */
function onInvalidOf(answer: JobFile['answer']) {
  const {
    repair = false,
    ask_again: askAgain = 0,
    prompt = null,
    deployment = null,
  } = answer?.on_invalid ?? {};
  return repair || askAgain > 0 || deployment !== null ? { repair, askAgain, prompt, deployment } : null;
}

/** Milliseconds. The schema of the job has checked the form. */
export function durationMs(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? [];
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}
