import { createHash } from 'node:crypto';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';

/**
 * What a run's records depend on, as a short hash for each part that a user would name. A run is only continued
 * with the same values: half a file from one prompt and half from another would be no one's answer.
 */
export function fingerprint(settings: Settings, inputSha256: string): Record<string, string> {
  const { service, input, output, reuse } = settings;
  const parts = {
    'the way the input is read': [input.format, input.encoding, input.delimiter],
    'input.require': input.require,
    '--limit': input.limit,
    service,
    prompt: settings.prompt,
    parameters: settings.parameters,
    row_parameters: settings.rowParameters,
    answer: settings.answer,
    output: [output.format, output.columns, output.formulas],
    '--emulate': settings.emulated,
    // Only where they are used: runs of versions that did not know them go on.
    ...(reuse.dedupe && { 'input.dedupe': true }),
    ...(reuse.onlyNew && { 'input.only_new': true, 'input.id': reuse.id }),
  };
  const hashes = Object.entries(parts).map(([name, value]) => [
    name,
    shortHash(JSON.stringify(value) ?? 'null'),
  ]);
  // As `sha256sum` shows it.
  return { input: inputSha256, ...Object.fromEntries(hashes) };
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);

/** @throws UsageError naming what changed since the unfinished run began (faults 14 and 15) */
export function assertSame(
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
  manifest: string,
): void {
  const changed = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter(
    (name) => before[name] !== now[name],
  );
  if (changed.length === 0) return;
  const what = changed.map((name) => `${name} (${before[name] ?? 'none'} then, ${now[name] ?? 'none'} now)`);
  throw new UsageError(
    'run_changed',
    `${manifest} is an unfinished run, and since it began this changed: ${what.join(', ')}`,
    'Put it back to continue the run, or discard the unfinished run with --restart.',
  );
}
