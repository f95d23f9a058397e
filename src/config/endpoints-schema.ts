import * as z from 'zod';
import { either } from '../core/errors.js';
import { baseProblem, withoutSecrets } from '../service/address.js';
import { CALLABLE_MODEL_IDS, CALLABLE_MODELS } from '../service/catalogue.js';
import { type EndpointSpec, endpointSpecSchema, mapped, type Several } from '../service/endpoint-spec.js';
import { price, share, whole } from './numbers.js';
import { problem } from './on-invalid-schema.js';

const text = z.string().min(1, 'must not be empty');

const modelSchema = z
  .enum(CALLABLE_MODEL_IDS, `must be ${CALLABLE_MODELS}, or be left away for any other`)
  .optional();

const API_VERSION = '2023-09-15-preview';

/** What one endpoint has, beside others or alone. */
export const endpointFields = {
  operation: endpointSpecSchema.shape.operation.default('completions'),
  model: modelSchema,
  api_version: text.default(API_VERSION),
  style: endpointSpecSchema.shape.style.default('deployments'),
};

/** Prices of tokens. */
export const pricesSchema = z.strictObject({
  prompt: price.describe('Price of 1,000 prompt tokens.'),
  cached: price
    .optional()
    .describe('Price of 1,000 prompt tokens that the service had in its cache. Default: as the others.'),
  completion: price.describe('Price of 1,000 completion tokens.'),
  flex: share
    .optional()
    .describe('What an answer of the flex tier costs, as a factor of these prices. Default: 0.5.'),
  batch: share.optional().describe('The same of the batch tier. Default: 0.5.'),
  currency: text
    .regex(/^[A-Z]{3}$/, 'must be three capital letters, such as EUR')
    .optional()
    .describe(
      'Currency of the prices (ISO 4217), shown behind each amount. Default: amounts are bare numbers.',
    ),
});

const A_KEY = 'must be the name of an environment variable in capital letters, such as WEST_KEY';

/** A wrong value may be the key itself, and is not shown. */
const keySchema = z.unknown().check(({ value, issues }) => {
  if (typeof value === 'string' && /^[A-Z_][A-Z0-9_]{0,99}$/.test(value)) return;
  const message = value === undefined ? 'is missing: add a line such as key: WEST_KEY' : A_KEY;
  issues.push({ code: 'custom', message, input: undefined });
});

const endpointSchema = z.strictObject({
  name: text
    .regex(/^[\w.-]{1,60}$/, 'may hold letters, digits, ".", "_" and "-", 60 at most')
    // Objects have such fields of their own, so counts by name would go wrong.
    .refine((name) => !(name in {}), 'is a reserved word: take another name')
    .describe('Name of the endpoint in the output, the report and messages.'),
  base_url: text.describe('Address of the service, as PROMPTMILL_BASE_URL has it for a job with one.'),
  key: keySchema
    .transform(String)
    .describe(
      'Name of the environment variable that holds the key (or, with _FILE behind it, the name of a file).',
    ),
  deployment: text.describe('Name of the deployment to call there.'),
  operation: endpointFields.operation.describe('As service.operation. Default: completions.'),
  model: endpointFields.model.describe('As service.model.'),
  api_version: endpointFields.api_version.describe('As service.api_version.'),
  style: endpointFields.style.describe('As service.style.'),
  requests_per_minute: whole(1)
    .optional()
    .describe('Quota of requests a minute, shared by all runs and workers that use it. Default: found out.'),
  tokens_per_minute: whole(1).optional().describe('Quota of tokens a minute. Default: found out.'),
  prices: pricesSchema.optional().describe('Default: those of the job.'),
});

const MOST_ENDPOINTS = 20;

export const endpointsSchema = z
  .array(endpointSchema)
  .min(1)
  .max(MOST_ENDPOINTS)
  .optional()
  .describe(
    'Several endpoints that share the rows, in place of deployment and what belongs to it. Each has its own key and quota. Default: one.',
  );

export const routeSchema = z
  .enum(['balance', 'in_order'])
  .default('balance')
  .describe(
    'Which endpoint takes a row. balance: one whose quota has room. in_order: the first of the list that is up and has room within a second. ' +
      'Default: balance.',
  );

/** An endpoint as the job has it. */
export interface JobEndpoint {
  readonly spec: EndpointSpec;
  /** Null: PROMPTMILL_BASE_URL. */
  readonly baseUrl: string | null;
  /** Environment variable with the key; null: PROMPTMILL_API_KEY. */
  readonly key: string | null;
  /** A minute; null where the job does not state it. */
  readonly quota: { readonly requestsPerMinute: number | null; readonly tokensPerMinute: number | null };
  /** Its own; null: those of the job. */
  readonly prices: z.output<typeof pricesSchema> | null;
}

export interface EndpointParts {
  readonly service: {
    readonly endpoints?: z.output<typeof endpointsSchema>;
    readonly deployment?: string | undefined;
    readonly operation: EndpointSpec['operation'];
    readonly model?: EndpointSpec['model'];
    readonly api_version: string;
    readonly style: EndpointSpec['style'];
    readonly tier:
      | 'online'
      | 'flex'
      | 'batch'
      | { readonly flex?: string | undefined; readonly batch?: string | undefined };
    readonly route: z.output<typeof routeSchema>;
  };
  readonly limits: {
    readonly timeout_seconds?: number | undefined;
    readonly requests_per_minute?: number | undefined;
    readonly tokens_per_minute?: number | undefined;
    readonly budget?: { readonly cost?: number | undefined } | undefined;
  };
  readonly answer?:
    | { readonly on_invalid?: { readonly deployment?: string | undefined } | undefined }
    | undefined;
}

/** In seconds. Answers of the flex tier may take many minutes. */
export const TIMEOUT = { online: 120, flex: 900 } as const;

/** `service.deployment` is a list of one. */
export function endpointsOf({ service, limits }: EndpointParts): Several<JobEndpoint> {
  const { deployment = '', tier } = service;
  const isFlex = tier === 'flex' || (typeof tier === 'object' && tier.flex !== undefined);
  const seconds = limits.timeout_seconds ?? TIMEOUT[isFlex ? 'flex' : 'online'];
  const one = { ...service, ...limits, deployment, name: deployment };
  const [first = { ...one, base_url: null, key: null, prices: undefined }, ...others] =
    service.endpoints ?? [];
  return mapped([first, ...others], ({ name, operation, model, style, ...each }): JobEndpoint => {
    const { base_url: baseUrl, key, prices = null, requests_per_minute, tokens_per_minute } = each;
    const at = { apiVersion: each.api_version, style, timeoutMs: seconds * 1000 };
    const spec = {
      // Then workers that have only its address serve it too.
      name: others.length === 0 ? each.deployment : name,
      operation,
      deployment: each.deployment,
      ...(model !== undefined && { model }),
      ...at,
    };
    const quota = {
      requestsPerMinute: requests_per_minute ?? null,
      tokensPerMinute: tokens_per_minute ?? null,
    };
    return { spec, baseUrl, key, quota, prices };
  });
}

export function endpointProblems({ service, limits, answer }: EndpointParts) {
  const { endpoints } = service;
  const where = (message: string, fields: { readonly [field: string]: unknown }) =>
    Object.entries(fields).flatMap(([field, input]) =>
      input === undefined ? [] : [problem(field, message, input)],
    );
  const unless = <T>(usual: T, given: T): T | undefined => (given === usual ? undefined : given);
  if (endpoints === undefined)
    return where('needs service.endpoints', { 'service.route': unless('balance', service.route) });
  const asked = answer?.on_invalid?.deployment;
  return [
    ...where('cannot stand beside service.endpoints: write it at each of them', {
      'service.deployment': service.deployment,
      'service.model': service.model,
      'service.operation': unless('completions', service.operation),
      'service.style': unless('deployments', service.style),
      'service.api_version': unless(API_VERSION, service.api_version),
      'limits.requests_per_minute': limits.requests_per_minute,
      'limits.tokens_per_minute': limits.tokens_per_minute,
    }),
    ...where('cannot stand beside service.endpoints: take it out', {
      'service.tier': unless('online', service.tier),
    }),
    ...(asked === undefined || endpoints.some(({ name }) => name === asked)
      ? []
      : where(`must be one of service.endpoints: ${either(endpoints.map(({ name }) => name))}`, {
          'answer.on_invalid.deployment': asked,
        })),
    ...endpoints.flatMap((each, i) => ofOne(each, i, endpoints)),
  ];
}

function ofOne(
  { name, base_url: url }: z.output<typeof endpointSchema>,
  i: number,
  endpoints: readonly z.output<typeof endpointSchema>[],
) {
  const at = (field: string, message: string, input?: unknown) => ({
    ...{ path: ['service', 'endpoints', i, field], message, input },
  });
  const address = baseProblem(url);
  return [
    ...(endpoints.findIndex((each) => each.name === name) === i
      ? []
      : [at('name', 'must be another than that of an earlier endpoint', name)]),
    // The address may hold a password.
    ...(address === null
      ? []
      : [
          at(
            'base_url',
            `${address}, got ${withoutSecrets(url)}: give the address alone, such as https://a.example`,
          ),
        ]),
  ];
}
