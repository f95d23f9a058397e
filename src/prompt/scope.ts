import Mustache from 'mustache';
import type { Json, Row } from '../model.js';
import { valueText } from './value-text.js';

/**
 * Where Mustache looks up names. Its own lookup reaches prototypes and calls functions; this one finds plain data
 * only: columns of the row, and own properties of its JSON values (faults 9 and 56).
 */
export class Scope extends Mustache.Context {
  private constructor(
    private readonly find: (name: string) => Json | undefined,
    view: unknown,
    private readonly outer: Scope | null,
  ) {
    super(view);
  }

  /** The names of a row. @param columnOf the column that a name in the template means */
  static ofRow(row: Row, columnOf: (name: string) => string | null): Scope {
    const find = (name: string): Json | undefined => {
      const column = columnOf(name);
      if (column !== null) return row.fields.get(column);
      const [first = '', ...path] = name.split('.');
      const head = columnOf(first);
      return head === null ? undefined : descend(row.fields.get(head), path);
    };
    return new Scope(find, row, null);
  }

  /** The names inside a section: those of its value first, then those around it. */
  override push(view: Json): Scope {
    const find = (name: string): Json | undefined => {
      if (name === '.') return view;
      const whole = descend(view, [name]);
      return whole === undefined ? descend(view, name.split('.')) : whole;
    };
    return new Scope(find, view, this);
  }

  override lookup(name: string): Json | undefined {
    const value = this.find(name);
    return value === undefined && this.outer !== null ? this.outer.lookup(name) : value;
  }
}

function descend(value: Json | undefined, path: readonly string[]): Json | undefined {
  let found = value;
  for (const name of path) found = isBranch(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  return found;
}

const isBranch = (value: Json | undefined): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null;

/** Renders values as they are: a prompt is no HTML. `{{x}}`, `{{{x}}}` and `{{&x}}` are the same. */
export class TextWriter extends Mustache.Writer {
  override escapedValue(token: string[], scope: Mustache.Context): string {
    return valueText(scope.lookup(token[1] ?? ''));
  }

  override unescapedValue(token: string[], scope: Mustache.Context): string {
    return this.escapedValue(token, scope);
  }
}
