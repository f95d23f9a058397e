import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import type { Summary } from '../report/summary.js';
import type { Input } from '../run/input.js';
import { nameOf } from '../source/source.js';

/**
 * Row n of the output is row n of the input only where the input is the one that the output was made of.
 * @throws UsageError when it was changed, or has grown
 */
export async function assertInput(
  { spec, survey }: Input,
  { input, output, details }: Summary,
  { jobFile }: Settings,
): Promise<void> {
  if (survey.sha256 === input.sha256) return;
  const name = nameOf(spec);
  if (details !== undefined && survey.bytes > details.input_bytes) {
    if ((await digestOf(spec.path, details.input_bytes)) === input.sha256) {
      throw new UsageError(
        'input_grown',
        `rows were appended to ${name} since ${output} was made`,
        `Call them first: promptmill run ${jobFile ?? 'JOB'} --extend`,
      );
    }
  }
  throw new UsageError(
    'input_changed',
    `${name} is not the input that ${output} was made of (SHA-256 ${input.sha256} then, ${survey.sha256} now)`,
    'Name that one with --input FILE, or run the job again with --overwrite.',
  );
}

/** SHA-256 of the first bytes of a file. */
async function digestOf(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  if (bytes > 0) for await (const piece of createReadStream(path, { end: bytes - 1 })) hash.update(piece);
  return hash.digest('hex');
}
