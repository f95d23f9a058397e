import {
  type Document,
  isMap,
  isPair,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  parseDocument,
  Scalar,
  visit,
} from 'yaml';
import { UsageError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import type { Environment } from './environment.js';

/** `${NAME}`, and `$${NAME}`, which is the text `${NAME}`. */
const VARIABLE = /(\$?)\$\{([^{}]*)\}/g;
const NAME = /^[A-Za-z_]\w*$/;
/** A default value for an unset variable, as in shells. */
const WITH_DEFAULT = /^([A-Za-z_]\w*):?[-=+?]/;

/** Fields whose text is for the model, or that name a variable themselves. */
const TEXTS = new Set([
  'prompt',
  'system',
  'messages',
  'answer.on_invalid.prompt',
  'on_finish.post',
  'service.endpoints.key',
]);

/** Contents of a job file end up in summaries, reports and stores, which must not contain keys. */
const KEY_NAME = /API_?KEY|SECRET|PASSWORD|PASSWD|(ACCESS|AUTH)_?TOKEN|^PROMPTMILL_QUEUE$/i;

/**
 * An unquoted value is read as YAML, so a number is a number. A value cannot add fields.
 * @param place file and line of a node, for messages
 * @returns whether there were any
 * @throws UsageError for a variable that is not set, or that holds a key
 */
export function fillVariables(
  document: Document,
  place: (node: Node) => string,
  environment: () => Environment,
): boolean {
  let known: Environment | null = null;
  let any = false;
  const secrets = keyNames(document);
  visit(document, {
    Scalar(key, node, ancestors) {
      const { value: text } = node;
      if (key === 'key' || typeof text !== 'string' || !text.includes('${')) return;
      const path = ancestors.filter(isPair).map(nameOf);
      if (TEXTS.has(path.join('.')) || path[0] === 'messages') return;
      const filled = text.replace(VARIABLE, (written: string, doubled: string, name: string) => {
        if (doubled !== '') return written.slice(1);
        const withDefault = WITH_DEFAULT.exec(name)?.[1];
        if (!NAME.test(name) && withDefault === undefined) return written;
        known ??= environment();
        return valueIn(withDefault ?? name, written, `${place(node)}: ${path.join('.')}`, known, secrets);
      });
      if (filled === text) return;
      any = true;
      node.value = node.type === Scalar.PLAIN ? read(filled) : filled;
    },
  });
  return any;
}

/** Variables that the endpoints of the job have their keys in. */
function keyNames(document: Document): ReadonlySet<unknown> {
  const endpoints: unknown = document.getIn(['service', 'endpoints']);
  if (!isSeq(endpoints)) return new Set();
  return new Set(endpoints.items.map((each) => (isMap(each) ? each.get('key') : null)));
}

const nameOf = ({ key }: Pair): string => String(isScalar(key) ? key.value : key);

function read(text: string): unknown {
  const { contents, errors } = parseDocument(text);
  const value = errors.length === 0 && isScalar(contents) ? contents.value : text;
  return typeof value === 'number' || typeof value === 'boolean' ? value : text;
}

function valueIn(
  name: string,
  written: string,
  where: string,
  { variable, secret: secretOf, keys, names }: Environment,
  secrets: ReadonlySet<unknown>,
): string {
  const secret = new UsageError(
    'variable_is_key',
    `${where} names ${name}, which holds a key or a password, and what a job file says goes into summaries and reports`,
    'Take it out. Keys are read from PROMPTMILL_API_KEY and PROMPTMILL_API_KEY_2 without being named.',
  );
  if (KEY_NAME.test(name) || secrets.has(name)) throw secret;
  if (written !== `\${${name}}`) {
    throw new UsageError(
      'variable_default',
      `${where} has ${written}, and a value for a variable that is not set cannot be given`,
      `Write \${${name}} and set ${name} in the environment or in .env; or write $${written} for the text itself.`,
    );
  }
  const value = variable(name);
  if (value === undefined) {
    const near = names.includes(name) ? null : nearest(name, names);
    throw new UsageError(
      'variable_not_set',
      `${where} has \${${name}}, and the environment variable ${name} is ${names.includes(name) ? 'empty' : 'not set'}${near === null ? '' : `; did you mean ${near}?`}`,
      `Set ${name} in the environment or in .env, or write $\${${name}} for the text itself.`,
    );
  }
  const own = [...secrets].flatMap((each) => (typeof each === 'string' ? (secretOf(each) ?? []) : []));
  if ([...keys, ...own].some((key) => key.trim() === value.trim())) throw secret;
  return value;
}
