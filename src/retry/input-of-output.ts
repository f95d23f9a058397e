import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import type { Summary } from '../report/summary.js';
import type { Input } from '../run/input.js';
import { beginsAsGzip, inflate } from '../source/open.js';
import { nameOf } from '../source/source.js';

/**
 * Row n of the output is row n of the input only where the input is the one that the output was made of.
 * @throws UsageError when it was changed, or has grown
 */
export async function assertInput(
  input: Input,
  before: Summary,
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

/**
 * The rows of the output are the first ones of the input.
 * @throws UsageError when the input was changed in another way than by adding rows
 */
export async function assertExtended(input: Input, before: Summary): Promise<void> {
  if (input.survey.sha256 === before.input.sha256) return;
  if (!(await hasGrown(input, before))) throw changed(input, before);
  if (await isWholeLine(input.spec.path, before.details?.input_bytes ?? 0)) return;
  throw new UsageError(
    'input_changed',
    `the last line of ${nameOf(input.spec)} had no end when ${before.output} was made, and what was appended has become part of it`,
    'Put a line end between the two, or run the job again with --overwrite.',
  );
}

/** Whether the file begins with what the output was made of. */
async function hasGrown({ spec, survey }: Input, { input, details }: Summary): Promise<boolean> {
  if (details === undefined || survey.bytes <= details.input_bytes) return false;
  const hash = createHash('sha256');
  for await (const piece of beginningOf(spec.path, details.input_bytes)) hash.update(piece);
  return hash.digest('hex') === input.sha256;
}

const changed = ({ spec, survey }: Input, { input, output }: Summary): UsageError =>
  new UsageError(
    'input_changed',
    `${nameOf(spec)} is not the input that ${output} was made of (SHA-256 ${input.sha256} then, ${survey.sha256} now)`,
    'Name that one with --input FILE, or run the job again with --overwrite.',
  );

const LF = 0x0a;
const CR = 0x0d;

/** Whether the first bytes of a file end with a line, or the next ones begin with its end. */
async function isWholeLine(path: string, bytes: number): Promise<boolean> {
  const isPacked = await beginsAsGzip(path);
  const first = beginningOf(path, bytes);
  let tail = Buffer.alloc(0);
  for await (const piece of isPacked ? inflate(first) : first)
    tail = Buffer.concat([tail.subarray(-2), piece.subarray(-2)]).subarray(-2);
  // In UTF-16 a line feed has a zero behind it or before it.
  if (tail.length === 0 || tail.at(-1) === LF || (tail.at(-1) === 0 && tail.at(-2) === LF)) return true;
  if (isPacked) return false;
  for await (const [one, other] of createReadStream(path, { start: bytes, end: bytes + 1 }))
    return one === LF || (one === CR && other === LF);
  return true;
}

async function* beginningOf(path: string, bytes: number): AsyncGenerator<Buffer> {
  if (bytes > 0) yield* createReadStream(path, { end: bytes - 1 });
}
