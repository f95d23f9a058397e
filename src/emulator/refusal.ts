import type { Json } from '../model.js';
import type { FilterReport } from './filter.js';

/** An HTTP answer before it is written. */
export interface Reply {
  readonly status: number;
  /** Sent as JSON; a string is sent as it is, as HTML when it looks like it. */
  readonly body: Json;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The service refuses a request. Thrown anywhere on the way to an answer, and written by the server. */
export class Refusal extends Error {
  /** @param isFilter whether the content filter refused a prompt */
  constructor(
    readonly reply: Reply,
    readonly isFilter = false,
  ) {
    super(`refused with status ${reply.status}`);
    this.name = 'Refusal';
  }
}

/** The gateway's family of error bodies. */
function gateway(status: number, code: string, message: string): Refusal {
  return new Refusal({ status, body: { error: { code, message } } });
}

/** The model's family of error bodies. */
function modelRefusal(status: number, code: string | null, message: string, param: string | null = null) {
  return new Refusal({ status, body: { error: { message, type: 'invalid_request_error', param, code } } });
}

/** What is wrong with a request's fields. */
export function invalidRequest(message: string, param: string | null = null): Refusal {
  return modelRefusal(400, null, message, param);
}

export function keyRefused(): Refusal {
  return gateway(
    401,
    '401',
    'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key ' +
      'for an active subscription and use a correct regional API endpoint for your resource.',
  );
}

/** The body for a bad bearer token has no `error` member. */
export function tokenRefused(): Refusal {
  return new Refusal({
    status: 401,
    body: { statusCode: 401, message: 'Unauthorized. Access token is missing, invalid or expired.' },
  });
}

/** What a plain server says of a bad bearer token, or of none. */
export function plainKeyRefused(): Refusal {
  return modelRefusal(401, 'invalid_api_key', 'Incorrect API key provided.');
}

export function plainModelMissing(): Refusal {
  return invalidRequest('you must provide a model parameter');
}

export function plainModelNotFound(model: string): Refusal {
  return modelRefusal(404, 'model_not_found', `The model '${model}' does not exist`);
}

export function plainModelOfConversation(): Refusal {
  return modelRefusal(
    404,
    null,
    'This is a chat model and not supported in the v1/completions endpoint. Did you mean to use v1/chat/completions?',
    'model',
  );
}

export function resourceNotFound(): Refusal {
  return gateway(404, '404', 'Resource not found');
}

export function apiVersionNotSupported(): Refusal {
  return gateway(400, 'BadRequest', 'API version not supported');
}

export function deploymentNotFound(): Refusal {
  return gateway(
    404,
    'DeploymentNotFound',
    'The API deployment for this resource does not exist. If you created the deployment within the last 5 ' +
      'minutes, please wait a moment and try again.',
  );
}

export function operationNotSupported(model: string): Refusal {
  return gateway(
    400,
    'OperationNotSupported',
    `The completion operation does not work with the specified model, ${model}. Please choose different model and try again.`,
  );
}

export function bodyTooLarge(limit: number): Refusal {
  return gateway(413, '413', `The request body is larger than ${limit} bytes.`);
}

export function mediaTypeNotSupported(contentType: string): Refusal {
  return gateway(415, '415', `The content type ${contentType} is not supported; use application/json.`);
}

export function bodyNotJson(): Refusal {
  return invalidRequest(
    'We could not parse the JSON body of your request: the completions operation expects a JSON object.',
  );
}

/**
 * The content filter blocked a prompt: no choices, no usage.
 * @param report what the filter found, or `null` for the older body without `innererror`
 */
export function promptBlocked(report: FilterReport | null): Refusal {
  const error = {
    message:
      "The response was filtered due to the prompt triggering the service's content management policy. " +
      'Please modify your prompt and retry.',
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
  };
  const innererror = { code: 'ResponsibleAIPolicyViolation', content_filter_result: { ...report } };
  return new Refusal({ status: 400, body: { error: report ? { ...error, innererror } : error } }, true);
}
