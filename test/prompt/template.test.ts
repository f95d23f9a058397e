import { describe, expect, it, test } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import type { Json, Row } from '../../src/core/model.js';
import { compileTemplate } from '../../src/prompt/template.js';
import { csv } from '../../src/source/csv.js';
import type { InputFormat } from '../../src/source/input.js';
import { jsonl } from '../../src/source/jsonl.js';

type Fields = readonly (readonly [string, Json])[];

const row = (fields: Fields): Row => ({ number: 1, line: 1, fields: new Map(fields), bytes: 0 });

function compiled(text: string, columns: readonly string[], format: InputFormat = csv) {
  return compileTemplate(text, { name: 'samples/reviews.csv', columns, format });
}

function rendered(text: string, fields: Fields, format: InputFormat = csv): string {
  const columns = fields.map(([name]) => name);
  return compiled(text, columns, format).render(row(fields));
}

function refusal(text: string, columns: readonly string[] = ['review']): UsageError {
  try {
    compiled(text, columns);
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

describe('a template', () => {
  it('puts values in as they are, without HTML escaping', () => {
    const value = '<b>"Tom" & \'Jerry\'</b> / `x` = 1\n\0\ud800👍';
    for (const tag of ['{{ x }}', '{{x}}', '{{{ x }}}', '{{& x }}']) {
      expect(rendered(`a ${tag} b`, [['x', value]])).toBe(`a ${value} b`);
    }
  });

  it('names the columns it reads', () => {
    expect(compiled('{{b}} {{a}} {{b}}', ['a', 'b', 'c']).names).toEqual(['b', 'a']);
    expect(compiled('{{order.total}}', ['order'], jsonl).names).toEqual(['order']);
  });

  it('renders a missing or empty value as nothing', () => {
    const template = compiled('[{{a}}{{b}}{{c}}]', ['a', 'b', 'c'], jsonl);
    expect(
      template.render(
        row([
          ['a', ''],
          ['b', null],
        ]),
      ),
    ).toBe('[]');
  });

  it('renders JSON values as compact JSON', () => {
    const fields: Fields = [
      ['number', 7],
      ['yes', true],
      ['no', false],
      ['zero', 0],
      ['list', ['a', 1]],
      ['object', { a: { b: null } }],
    ];
    expect(rendered('{{number}} {{yes}} {{no}} {{zero}} {{list}} {{object}}', fields, jsonl)).toBe(
      '7 true false 0 ["a",1] {"a":{"b":null}}',
    );
  });

  it('takes column names with spaces, dots, other scripts, and signs of Mustache', () => {
    expect(
      rendered('{{ Review Text }}|{{a.b}}|{{Größe (cm)}}|{{& #id }}|{{{^x}}}|{{ padded }}|{{10}}', [
        ['Review Text', '1'],
        ['a.b', '2'],
        ['Größe (cm)', '3'],
        ['#id', '4'],
        ['^x', '5'],
        [' padded ', '6'],
        ['10', '7'],
      ]),
    ).toBe('1|2|3|4|5|6|7');
  });

  it('prefers a column to a path, and follows a path into JSON values', () => {
    const fields: Fields = [
      ['a', { b: 'path', c: { d: 1 }, list: ['x', 'y'] }],
      ['a.b', 'column'],
      ['text', 'abc'],
    ];
    expect(
      rendered('{{a.b}} {{a.c.d}} {{a.list.1}} [{{a.none}}{{a.none.x}}{{text.length}}]', fields, jsonl),
    ).toBe('column 1 y []');
  });

  it('has sections for values that are there, and inverted ones for values that are not', () => {
    const text = '{{#title}}Title: {{title}}\n{{/title}}{{^title}}Untitled\n{{/title}}{{review}}';
    expect(
      rendered(text, [
        ['title', 'T'],
        ['review', 'R'],
      ]),
    ).toBe('Title: T\nR');
    expect(
      rendered(text, [
        ['title', ''],
        ['review', 'R'],
      ]),
    ).toBe('Untitled\nR');
  });

  it('repeats a section for the items of an array', () => {
    const fields: Fields = [
      [
        'lines',
        [
          { name: 'a', price: 1 },
          { name: 'b', price: { value: 2 } },
        ],
      ],
      ['tags', ['x', 'y']],
      ['price', 9],
    ];
    expect(
      rendered(
        '{{#lines}}{{name}}={{price.value}}{{price}};{{/lines}}{{#tags}}<{{.}}>{{/tags}}',
        fields,
        jsonl,
      ),
    ).toBe('a=1;b=2{"value":2};<x><y>');
  });

  it('ignores comments, and leaves braces that are no tags', () => {
    expect(rendered('{"a": {"b": 1}} }} {{! a comment }}{ {x} }', [['x', '']])).toBe(
      '{"a": {"b": 1}} }} { {x} }',
    );
  });

  it('fault 56: never parses a value as a template', () => {
    const hostile = '{{secret}} {{{secret}}} {{#secret}}x{{/secret}} {{> secret}} {{=<% %>=}} <%secret%>';
    expect(
      rendered('{{x}}{{#x}}{{x}}{{/x}}', [
        ['x', hostile],
        ['secret', 's'],
      ]),
    ).toBe(hostile + hostile);
  });
});

describe('faults 9 and 56: a template never reaches a prototype', () => {
  const hostile = [
    'constructor',
    '__proto__',
    'toString',
    'hasOwnProperty',
    'constructor.constructor',
    "constructor.constructor('return process')()",
    '__proto__.polluted',
    'fields',
    'number',
  ];

  test.each(hostile)('{{%s}} is refused where it is no column', (name) => {
    for (const format of [csv, jsonl]) {
      expect(() => compiled(`{{${name}}}`, ['review'], format)).toThrow(UsageError);
    }
  });

  test.each(hostile)('{{%s}} is plain data where it is a column', (name) => {
    expect(rendered(`{{${name}}}{{#${name}}}!{{/${name}}}`, [[name, 'data']])).toBe('data!');
  });

  test.each(hostile)('{{x.%s}} is empty inside a value', (name) => {
    const fields: Fields = [
      ['x', { a: [1] }],
      ['list', [{}, 'text', 7]],
    ];
    expect(rendered(`{{x.${name}}}{{#x}}{{${name}}}{{/x}}{{#list}}{{${name}}}{{/list}}`, fields, jsonl)).toBe(
      '',
    );
  });

  it('has own members of those names as plain data', () => {
    const value: Json = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}');
    expect(rendered('{{x.__proto__.a}}{{x.constructor}}', [['x', value]], jsonl)).toBe('12');
  });
});

describe('a template is refused', () => {
  it('for names that are no columns, all at once, with the nearest column', () => {
    expect(refusal('{{ reveiw }} {{#titel}}{{.}}{{/titel}}', ['review', 'title'])).toMatchObject({
      code: 'template_name_unknown',
      message:
        'prompt uses {{ reveiw }} and {{ titel }}, but samples/reviews.csv has no such columns; ' +
        'did you mean {{ review }} and {{ title }}?',
      hint: 'Columns: review, title.',
    });
    expect(refusal('{{ review.text }}').code).toBe('template_name_unknown');
    expect(refusal('{{ . }}').code).toBe('template_name_unknown');
    expect(refusal('{{#review}}{{ titel }}{{/review}}').code).toBe('template_name_unknown');
  });

  test.each([
    ['a\nb {{ review', 'prompt, line 2: Unclosed tag'],
    ['{{review}}\n\n{{ review }\n}', 'prompt, line 3: Unclosed tag'],
    ['a\n{{{ review }}', 'prompt, line 2: Unclosed tag'],
    ['{{review}}\n{{/review}}', 'prompt, line 2: Unopened section "review"'],
    ['{{#review}}\nx', 'prompt, line 2: Unclosed section "review"'],
  ])('for a syntax error with its line: %j', (text, message) => {
    expect(refusal(text)).toMatchObject({ code: 'template_syntax', message });
  });

  test.each([
    ['a\n{{> review }}', 'prompt, line 2: partials ({{> name }}) are not supported'],
    ['{{=<% %>=}}<% review %>', 'prompt, line 1: changed delimiters ({{= =}}) are not supported'],
  ])('fault 56: for partials and changed delimiters: %j', (text, message) => {
    expect(refusal(text)).toMatchObject({ code: 'template_unsupported', message });
  });

  it('for delimiters that are none', () => {
    expect(refusal('{{=x=}}')).toBeInstanceOf(UsageError);
  });
});
