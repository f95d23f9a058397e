import { asStarted } from '../core/started.js';

/** What a person can do about error codes. Names `promptmill retry OUTPUT` where another call may succeed. */

const AGAIN = 'Call these rows again when the service is well: promptmill retry OUTPUT.';
const NETWORK =
  'Look at the network and the proxy between here and the service, then promptmill retry OUTPUT.';
const SERVER =
  'The service, or a gateway before it, answered what is no answer. Retry these rows; if it stays, tell its owner.';
const ACCOUNT = 'Mend this at the service or in the job, then promptmill retry OUTPUT.';
const PROMPT =
  'Say in the prompt what an answer looks like, or have such rows asked again: answer.on_invalid.';
const ROW = 'Mend these records in the input and run them alone: --input with a file of them.';

const ADVICE: { readonly [code: string]: string } = {
  content_filter:
    'The content filter blocked these rows. See its categories; change the text or the prompt, or the filter of the deployment.',

  answer_not_a_label: `The text is none of the labels. ${PROMPT} A name that the model likes can be a synonym in answer.labels.`,
  answer_not_a_number: `The text is no number. ${PROMPT}`,
  answer_out_of_range: `The number is outside answer.number. ${PROMPT}`,
  answer_not_json: `The text is no JSON. ${PROMPT} Where it was cut short, raise parameters.max_tokens.`,
  answer_invalid: `The JSON does not fit the schema of answer.json. ${PROMPT}`,
  answer_refused:
    'The model refuses to answer; the column refusal has its words. Change the text or the prompt, or ask another model: answer.on_invalid.',
  cut_before_answer:
    'The model thought until its limit. Raise parameters.max_completion_tokens or lower parameters.reasoning_effort, then promptmill retry OUTPUT.',
  unexpected_tool_calls: `The model calls a tool that the request does not have. Say in the prompt that the answer is a text. ${AGAIN}`,
  prompt_cut:
    'The server left a part of the prompt out. Give it more context for each slot, or shorten these rows, and retry them.',
  text_cut: 'The text is longer than what is kept. Lower parameters.max_tokens, or ask for less.',
  invalid_utf8:
    'The service sent bytes that are no text; they are marked in it. Read these answers before you use them.',
  logprobs_left_out:
    'The log probabilities were too long to keep. Lower parameters.logprobs or parameters.max_tokens.',

  context_length_exceeded:
    'Prompt and max_tokens do not fit the model. Shorten these rows or the prompt, lower max_tokens, or take a larger model.',
  request_too_large:
    'The request is larger than the service takes. Shorten these rows, or lower limits.prompts_per_request.',
  request_exceeds_quota:
    'One such request takes more tokens than the quota of the deployment has a minute. Shorten it, lower max_tokens, or raise the quota.',
  invalid_request:
    'The service refuses the request as it is. Its message says why; promptmill check finds what can be known before.',
  invalid_parameters:
    'The parameters of these rows are none that the service takes. Mend the columns of row_parameters, or the body.',
  url_mismatch:
    'These lines are for another operation. Run them alone, by a job whose service.operation is theirs: completions or chat.',
  empty_prompt:
    'The prompt of these rows is empty. Fill their columns, or name them in input.require to have such rows skipped.',
  bad_json: `The line is no JSON. ${ROW}`,
  ragged_record: `The record has more or fewer cells than the header: put a cell with a separator or a quote in it into quotes. ${ROW}`,

  unauthorized: 'The key was refused. Put a valid one into the environment, then promptmill retry OUTPUT.',
  proxy_unauthorized: `The proxy asks for a user and a password: put them into HTTPS_PROXY. ${NETWORK}`,
  forbidden: `The account may not call this deployment. ${ACCOUNT}`,
  insufficient_quota: `The quota or the budget of the account is used up. ${ACCOUNT}`,
  deployment_not_found: `The service has no such deployment. ${ACCOUNT}`,
  not_found: `The service has nothing at this address. ${ACCOUNT}`,
  operation_not_supported: `The deployment does not answer this operation. ${ACCOUNT}`,
  not_supported: `The server does not know a field of the request; its message names it. Take it out of the job. ${AGAIN}`,
  not_ready: `The server was loading its model. ${AGAIN}`,
  api_version_not_supported: `The service does not know service.api_version. ${ACCOUNT}`,
  redirected: `The address leads elsewhere, and a key does not follow. Put the final one into PROMPTMILL_BASE_URL. ${AGAIN}`,

  rate_limited: `The service refused these rows again and again. Lower limits.requests_per_minute or limits.concurrency. ${AGAIN}`,
  timeout: `No answer came in time. Raise limits.timeout_seconds, or lower limits.concurrency. ${AGAIN}`,
  server_error: AGAIN,
  conflict: AGAIN,
  failed_dependency: AGAIN,
  too_early: AGAIN,
  no_text: SERVER,
  no_choices: SERVER,
  not_json: SERVER,
  error_in_answer: SERVER,
  choices_mixed_up:
    'The server mixes up the answers of packed requests. Set limits.prompts_per_request to 1, and retry these rows.',
  choices_missing:
    'The server does not know the parameter n, by which answer.votes asks. Take answer.votes out of the job.',
  response_too_large:
    'The answer is larger than any that is meant. Lower max_tokens or logprobs, then promptmill retry OUTPUT.',
  dns_failure: `The name of the service is not found. ${NETWORK}`,
  connection_refused: NETWORK,
  connection_failed: NETWORK,
  connection_reset: NETWORK,
  connection_closed: NETWORK,
  unknown_encoding:
    'The server compresses its answers in a way that cannot be read. Switch that off in the server or its gateway, then run the same command again.',
  truncated_response: NETWORK,
  invalid_http: NETWORK,
  proxy_refused: NETWORK,
  plain_http: 'The port speaks http: write http:// in PROMPTMILL_BASE_URL, then promptmill retry OUTPUT.',
  tls_failure: `The certificate is not trusted. For one of your own, set NODE_EXTRA_CA_CERTS. ${NETWORK}`,
  too_many_open_files: `The machine may open no more files: ulimit -n 1024, or lower limits.concurrency. ${AGAIN}`,
  no_memory: `The machine gives too little address space for a connection: ulimit -v unlimited. ${AGAIN}`,
  aborted: AGAIN,

  outcome_unknown:
    'Perhaps answered and billed, and by limits.unknown_outcome: hold not called again. To call them all the same: promptmill retry OUTPUT.',
  worker_crashed:
    'Each worker that called these rows ended. See the log of the workers, and try these rows alone.',
};

/** `null` for an unknown code: of a later version, or `(other)`. */
export const adviceOn = (code: string): string | null =>
  Object.hasOwn(ADVICE, code) ? asStarted(ADVICE[code] ?? '') : null;
