import { UsageError } from '../core/errors.js';
import type { EndpointSpec } from './endpoint-spec.js';
import { operationOf } from './operation.js';
import type { ServiceProxy } from './proxy.js';

export interface ServiceAddress {
  readonly baseUrl: string | undefined;
  /** First path segment; style `deployments` only. */
  readonly segment: string;
  readonly proxy?: ServiceProxy | null;
}

/** @throws UsageError when the base URL is missing or is no plain http(s) address */
export function callUrl(address: ServiceAddress, spec: EndpointSpec): string {
  const { path } = operationOf(spec);
  if (spec.style === 'openai') return versioned(address, path);
  const query = new URLSearchParams({ 'api-version': spec.apiVersion });
  return `${deploymentsUrl(address)}/${pathSegment(spec.deployment)}/${path}?${query}`;
}

const versioned = (address: ServiceAddress, path: string): string => {
  const base = plainBase(address.baseUrl);
  return `${base}${base.endsWith('/v1') ? '' : '/v1'}/${path}`;
};

/** Where the files and batches of an endpoint are. @throws UsageError as `callUrl` does */
export function collectionUrl(
  address: ServiceAddress,
  spec: EndpointSpec,
  name: 'files' | 'batches',
): string {
  if (spec.style === 'openai') return versioned(address, name);
  const query = new URLSearchParams({ 'api-version': spec.apiVersion });
  return `${plainBase(address.baseUrl)}/${pathSegment(address.segment)}/${name}?${query}`;
}

/** Checks the address of a worker, whose rows name their deployments. @throws UsageError like `callUrl` */
export const deploymentsUrl = ({ baseUrl, segment }: ServiceAddress): string =>
  `${plainBase(baseUrl)}/${pathSegment(segment)}/deployments`;

/** What is wrong with a base URL, worded to follow its name, or null. */
export function baseProblem(value: string): string | null {
  const url = URL.parse(value);
  if (url === null || !/^https?:$/.test(url.protocol)) return 'is no http or https address';
  if (url.username || url.password) return 'must not hold a user name or password';
  return /[?#]/.test(value) ? 'must not have a query or fragment' : null;
}

function plainBase(value: string | undefined): string {
  if (value === undefined) {
    throw new UsageError(
      'base_url_missing',
      'PROMPTMILL_BASE_URL is not set',
      'Set it to the address of the service, for example https://example.net, or use --emulate.',
    );
  }
  const problem = baseProblem(value);
  if (problem !== null) {
    throw new UsageError(
      'bad_base_url',
      `PROMPTMILL_BASE_URL ${problem}: ${withoutSecrets(value)}`,
      'Give the address alone, for example https://example.net; keys go in PROMPTMILL_API_KEY.',
    );
  }
  const url = new URL(value);
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** The user part and the query may hold a password or a key. */
export const withoutSecrets = (url: string): string =>
  url.replace(/^([a-z]+:\/\/)?.*@/is, '$1').replace(/[?#].*$/s, '');

function pathSegment(name: string): string {
  // These two would climb to another path, and no encoding prevents that.
  if (name === '.' || name === '..') throw new UsageError('bad_path_segment', `not a name: ${name}`);
  return encodeURIComponent(name);
}
