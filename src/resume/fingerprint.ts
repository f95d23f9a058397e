import { createHash } from 'node:crypto';
import type { FinishedSummary } from '../account/read-summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { isObject } from '../core/json.js';
import type { Manifest } from './manifest.js';

/** Hashes of the parts that records depend on. Half a file per prompt would be no one's answer. */
export function fingerprint(settings: Settings, inputSha256: string): Record<string, string> {
  const hashes = Object.entries(partsOf(settings)).map(([name, value]) => [name, shortHash(textOf(value))]);
  // As `sha256sum` shows it.
  return { input: inputSha256, ...Object.fromEntries(hashes) };
}

/** The parts as JSON, to show what changed. Long parts are shortened; none contains a key. */
export function partValues(settings: Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(partsOf(settings)).map(([name, value]) => [name, textOf(value).slice(0, KEPT)]),
  );
}

const KEPT = 4_000;
const SHOWN = 100;

function partsOf(settings: Settings): Record<string, unknown> {
  const { input, output, reuse } = settings;
  return {
    'the way the input is read': [input.format, input.encoding, input.delimiter],
    'input.require': input.require,
    ...serviceOf(settings),
    prompt: settings.prompt,
    ...(settings.system !== null && { system: settings.system }),
    ...(settings.messages !== null && { messages: settings.messages }),
    parameters: settings.parameters,
    row_parameters: settings.rowParameters,
    // Repair is part of answer.on_invalid.
    answer: { ...settings.answer, repair: undefined },
    output: [output.format.name, output.columns, output.formulas],
    '--emulate': settings.emulated,
    // How long in it may change.
    ...(settings.batch !== null
      ? { 'service.tier': 'batch' }
      : settings.flex !== null && { 'service.tier': 'flex' }),
    // Only when used, so that an unused part needs no value.
    ...(output.probabilities && { 'output.probabilities': true }),
    ...(input.done.length > 0 && { 'input.done': true }),
    ...(reuse.dedupe && { 'input.dedupe': true }),
    ...(settings.gold !== null && {
      'answer.gold':
        settings.goldParts ?? (settings.goldMap ? [settings.gold, settings.goldMap] : settings.gold),
    }),
    // Without the second deployment: its name may be corrected while a run is unfinished.
    ...(settings.onInvalid !== null && {
      'answer.on_invalid': { ...settings.onInvalid, deployment: undefined },
    }),
    ...(input.sample !== null && { '--sample': input.sample }),
    ...(reuse.onlyNew && { 'input.only_new': true, 'input.id': reuse.id }),
  };
}

/** Neither the time-out of a call, nor the order of endpoints, nor the name of an only one changes a record. */
function serviceOf({ endpoints }: Settings): Record<string, unknown> {
  const named = endpoints.map(({ spec: { timeoutMs: _, name, ...spec } }) => [name, spec] as const);
  if (named.length === 1) return { service: named[0]?.[1] };
  return Object.fromEntries(named.map(([name, spec]) => [`service.endpoints.${name}`, spec]));
}

const textOf = (value: unknown): string => JSON.stringify(value) ?? 'null';

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);

export const changedParts = (
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((name) => before[name] !== now[name]);

/** Values as JSON; both empty if they differ behind what is kept of them. */
type Change = readonly [name: string, was: string, is: string];

/** Where values have fields, field by field; of a text, the first line that differs. */
export const changedValues = (
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): Change[] =>
  changedParts(before, now).flatMap((name) => differences(name, before[name] ?? 'none', now[name] ?? 'none'));

export const changes = (...both: Parameters<typeof changedValues>): string[] =>
  changedValues(...both).map(changeText);

/** What the records of a run depend on. */
interface Parts {
  readonly fingerprint: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, string>>;
}

/** @throws UsageError with what changed since the unfinished run began (faults 14 and 15) */
export function assertSame(before: Parts & Pick<Manifest, 'since'>, now: Parts, manifest: string): void {
  const what = changesOf(before, now);
  if (what.length === 0) return;
  // A run that adds rows to an output is discarded with that output only.
  const isGrowing = before.since !== undefined;
  throw new UsageError(
    'run_changed',
    `${manifest} is an unfinished run, and since it began this changed: ${what.join(', ')}`,
    `Put it back to continue the run, or ${isGrowing ? 'start over with --restart --overwrite' : 'discard the unfinished run with --restart'}.`,
  );
}

/**
 * @param extended the input may have grown
 * @throws UsageError with what changed since the output was made to which rows are to be added
 */
export function assertUnchanged(
  { details }: FinishedSummary,
  now: Parts,
  output: string,
  extended: boolean,
): void {
  const { state, settings } = details;
  const input = extended ? { input: now.fingerprint['input'] ?? '' } : {};
  const before = { fingerprint: { ...state.fingerprint, ...input }, values: state.values ?? settings };
  const what = changesOf(before, now);
  if (what.length === 0) return;
  throw new UsageError(
    'run_changed',
    `since ${output} was made this changed: ${what.join(', ')}`,
    'Put it back to add the other rows, or start over with --overwrite.',
  );
}

const changesOf = (before: Parts, now: Parts): string[] =>
  changedParts(before.fingerprint, now.fingerprint).flatMap((name) =>
    name === 'input'
      ? pair('the content of the input', digestOf(before.fingerprint[name]), digestOf(now.fingerprint[name]))
      : // An unused part has no value.
        differences(name, before.values[name] ?? 'none', now.values[name] ?? 'none').map(changeText),
  );

/** Enough of a SHA-256 to compare by eye. */
const digestOf = (sha256 = 'none'): string => `SHA-256 ${sha256.slice(0, 12)}`;

const pair = (name: string, was: string, is: string): string => `${name} (${was} then, ${is} now)`;

const changeText = ([name, was, is]: Change): string => (was + is === '' ? name : pair(name, was, is));

const short = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

function differences(name: string, was: string, is: string): Change[] {
  const [a, b] = [parsed(was), parsed(is)];
  if (isObject(a) && isObject(b)) {
    const fields = [...new Set([...Object.keys(a), ...Object.keys(b)])];
    return fields
      .filter((field) => textOf(a[field]) !== textOf(b[field]))
      .map((field) => [`${name}.${field}`, shown(a[field]), shown(b[field])]);
  }
  if (typeof a !== 'string' || typeof b !== 'string') return [[name, short(was), short(is)]];
  const [then, now] = [a.split('\n'), b.split('\n')];
  const line = then.findIndex((text, i) => text !== now[i]);
  const at = line === -1 ? then.length : line;
  if (then[at] === undefined && now[at] === undefined)
    return [[`${name} (behind its first ${KEPT} characters)`, '', '']];
  const where = then.length + now.length > 2 ? `${name}, line ${at + 1}` : name;
  return [[where, shown(then[at]), shown(now[at])]];
}

const shown = (value: unknown): string => (value === undefined ? 'none' : short(textOf(value)));

/** A kept value; for a shortened text, its beginning. */
function parsed(text: string): unknown {
  for (const whole of [text, `${text}"`, `${text.slice(0, -1)}"`]) {
    try {
      return JSON.parse(whole);
    } catch {
      // Cut inside the text, or inside an escape.
    }
  }
  return undefined;
}
