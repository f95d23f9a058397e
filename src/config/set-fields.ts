import { isScalar, parseDocument } from 'yaml';
import { UsageError } from '../core/errors.js';

/** `--set path=value`: another value for a field of the job file. */
export interface SetField {
  /** As typed. */
  readonly text: string;
  readonly path: readonly string[];
  /** `undefined` takes the field out. */
  readonly value: unknown;
}

/** @throws UsageError for a text that is not `path=value` */
export function readSet(text: string): SetField {
  const end = text.indexOf('=');
  const path = text.slice(0, end).split('.');
  if (end < 1 || path.some((name) => name.trim() === '' || name === '__proto__'))
    throw new UsageError(
      'bad_set',
      `--set ${text}: it has the form path=value`,
      'For example: --set parameters.temperature=0.7',
    );
  return { text, path, value: valueIn(text.slice(end + 1)) };
}

/** Numbers, true, false, null, quoted texts and `[…]`, `{…}` are read as in the job file; all else is text. */
function valueIn(text: string): unknown {
  const { contents, errors } = parseDocument(text, { prettyErrors: false });
  if (errors.length > 0) return text;
  if (/^\s*(?:\[|\{(?!\{))/.test(text)) return contents?.toJSON();
  if (!isScalar(contents)) return text;
  return contents.value ?? undefined;
}

/**
 * A copy of a job file's content with the fields set.
 * @throws UsageError when a field on the way to one is no group of fields
 */
export function withFields(content: unknown, fields: readonly SetField[]): unknown {
  return fields.reduce((job, field) => withField(job, field, 0), content);
}

function withField(node: unknown, field: SetField, depth: number): unknown {
  const { path, value, text } = field;
  const name = path[depth];
  if (name === undefined) return value;
  if (node !== null && node !== undefined && typeof node !== 'object') {
    const at = path.slice(0, depth).join('.');
    throw new UsageError('bad_set', `--set ${text}: ${at} is ${JSON.stringify(node)}, and has no fields`);
  }
  if (Array.isArray(node)) {
    if (!/^\d+$/.test(name) || Number(name) >= node.length)
      throw new UsageError(
        'bad_set',
        `--set ${text}: ${path.slice(0, depth).join('.')} is a list, and has no entry ${name}`,
        `Its entries are 0 to ${node.length - 1}.`,
      );
    return node.map((entry, i) => (i === Number(name) ? withField(entry, field, depth + 1) : entry));
  }
  const group = new Map<string, unknown>(Object.entries(node ?? {}));
  const inner = withField(group.get(name), field, depth + 1);
  if (inner === undefined) group.delete(name);
  else group.set(name, inner);
  return Object.fromEntries(group);
}
