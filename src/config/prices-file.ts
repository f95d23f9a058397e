import { readFileSync, statSync } from 'node:fs';
import * as z from 'zod';
import type { Prices } from '../account/summary.js';
import { errorCode, errorText, UsageError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { pricesSchema } from './endpoints-schema.js';
import { lineOf, readYaml } from './job-file.js';
import { invalidJob } from './job-problem.js';
import type { NamedJob } from './job-schema.js';

/** Prices by deployment or model name. */
type PriceList = ReadonlyMap<string, Prices>;

/** Bytes; many times the longest file of prices. */
const MOST_BYTES = 1_048_576;

const listSchema = z.record(z.string(), pricesSchema);

type PricedJob = Pick<NamedJob, 'prices' | 'endpoint' | 'file'>;

/**
 * The job's own prices, or those of its deployment, else its model, in the file it names. Null for a job
 * without.
 * @throws UsageError for a file that cannot be read, or has prices for neither
 */
export function pricesOf({ prices, endpoint, file = 'the job' }: PricedJob): Prices | null {
  if (prices === undefined) return null;
  if (typeof prices !== 'string') return prices;
  const list = readPrices(prices, `prices of ${file}`);
  const names = [endpoint.deployment, endpoint.model ?? []].flat();
  const name = names.find((each) => list.has(each));
  const found = name === undefined ? undefined : list.get(name);
  if (found !== undefined) return found;
  const near = names.map((each) => nearest(each, list.keys())).find((each) => each !== null);
  throw new UsageError(
    'prices_unknown',
    `${prices} has no prices of ${names.join(', nor of ')}, which ${file} calls${near ? `; did you mean ${near}?` : ''}`,
    `Add a line to it: ${endpoint.deployment}: { prompt: 0.0015, completion: 0.002 }`,
  );
}

/** @param user for messages @throws UsageError with the file, and the line where there is one */
function readPrices(path: string, user: string): PriceList {
  const { document, lines, value } = readYaml(textOf(path, user), path);
  const parsed = listSchema.safeParse(value ?? {}, { reportInput: true });
  if (!parsed.success) throw invalidJob(parsed.error, (field) => `${path}:${lineOf(document, lines, field)}`);
  return new Map(Object.entries(parsed.data));
}

function textOf(path: string, user: string): string {
  const unreadable = (what: string): UsageError =>
    new UsageError(
      'prices_unreadable',
      `${user}: ${path} ${what}`,
      'It is a YAML file with a line for each deployment or model: NAME: { prompt: 0.0015, completion: 0.002 }',
    );
  try {
    const there = statSync(path);
    if (!there.isFile() || there.size > MOST_BYTES) throw unreadable('is no file with prices');
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw unreadable(
      errorCode(error) === 'ENOENT' ? 'does not exist' : `cannot be read: ${errorText(error)}`,
    );
  }
}
