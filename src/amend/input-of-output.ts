import { createReadStream } from 'node:fs';
import type { StoredSummary } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { sha256OfBytes } from '../output/plain-file.js';
import type { Input } from '../run/input.js';
import { toUtf8 } from '../source/encoding.js';
import { beginsAsGzip, inflate } from '../source/open.js';
import { type InputSpec, nameOf } from '../source/source.js';

/** @throws UsageError when the input has changed or grown, so that row numbers may not match */
export async function assertInput(
  input: Input,
  before: StoredSummary,
  { jobFile }: Pick<Settings, 'jobFile'>,
): Promise<void> {
  if (input.survey.sha256 === before.input.sha256) return;
  if (!(await hasGrown(input, before))) throw changed(input, before);
  throw new UsageError(
    'input_grown',
    `rows were appended to ${nameOf(input.spec)} since ${before.output} was made`,
    `Call them first: promptmill run ${jobFile ?? 'JOB'} --extend; or name the file as it was with --input FILE.`,
  );
}

/** @throws UsageError when the input was changed other than by appending rows */
export async function assertExtended(input: Input, before: StoredSummary): Promise<void> {
  if (input.survey.sha256 === before.input.sha256) return;
  if (!(await hasGrown(input, before))) throw changed(input, before);
  if (await isWholeLine(input.spec, before.details.input_bytes)) return;
  throw new UsageError(
    'input_changed',
    `the last line of ${nameOf(input.spec)} had no end when ${before.output} was made, and what was appended has become part of it`,
    'Put a line end between the two, or run the job again with --overwrite.',
  );
}

async function hasGrown({ spec, survey }: Input, { input, details }: StoredSummary): Promise<boolean> {
  if (survey.bytes <= details.input_bytes) return false;
  return (await sha256OfBytes(beginningOf(spec.path, details.input_bytes))) === input.sha256;
}

const changed = ({ spec, survey }: Input, { input, output }: StoredSummary): UsageError =>
  new UsageError(
    'input_changed',
    `${nameOf(spec)} is not the input that ${output} was made of (SHA-256 ${input.sha256} then, ${survey.sha256} now)`,
    'Name that one with --input FILE, or run the job again with --overwrite.',
  );

const ENDS: readonly (number | undefined)[] = [0x0a, 0x0d];

/** Whether the first bytes end with a line, or the next ones begin with a line end (fault 93). */
async function isWholeLine(spec: InputSpec, bytes: number): Promise<boolean> {
  const isPacked = await beginsAsGzip(spec.path);
  // In some encodings the byte of a line feed is part of another character.
  const textOf = (file: AsyncIterable<Buffer>): AsyncIterable<Buffer> =>
    toUtf8(isPacked ? inflate(file) : file, nameOf(spec), spec.encoding);
  let length = 0;
  let last: number | undefined;
  for await (const piece of textOf(beginningOf(spec.path, bytes))) {
    length += piece.length;
    last = piece.at(-1) ?? last;
  }
  if (length === 0 || ENDS.includes(last)) return true;
  let at = 0;
  for await (const piece of textOf(createReadStream(spec.path))) {
    if (length < at + piece.length) return ENDS.includes(piece[length - at]);
    at += piece.length;
  }
  return true;
}

async function* beginningOf(path: string, bytes: number): AsyncGenerator<Buffer> {
  if (bytes > 0) yield* createReadStream(path, { end: bytes - 1 });
}
