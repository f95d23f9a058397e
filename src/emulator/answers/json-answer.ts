import type { Json } from '../../model.js';
import { classify, isSo } from './classify.js';
import { keywordsOf, sentimentOf, valueFor } from './extract.js';
import { type Field, fieldsIn } from './fields.js';
import { withoutMeaning } from './labels.js';
import { numberIn } from './money.js';
import type { PromptParts } from './prompt-parts.js';
import { summaryOf } from './prose.js';
import { levelAmong, urgencyOf } from './urgency.js';

/** The JSON object that a prompt asks for, filled by rules from its subject; what is not found is `null`. */
export function jsonAnswer(parts: PromptParts, random: () => number): string {
  const fields = fieldsIn(parts);
  if (fields.length > 0) return spaced(objectOf(fields, parts, random));
  return spaced(
    /sentiment/i.test(parts.instruction)
      ? { sentiment: sentimentOf(parts.subject) }
      : { answer: summaryOf(parts.subject) },
  );
}

function objectOf(
  fields: readonly Field[],
  parts: PromptParts,
  random: () => number,
): { [name: string]: Json } {
  return Object.fromEntries(fields.map((field) => [field.name, fieldValue(field, parts, random)]));
}

function fieldValue(field: Field, parts: PromptParts, random: () => number): Json {
  const { name, options } = field;
  if (options.length > 0) {
    const level = /urgen|priorit/i.test(name) ? levelAmong(options, urgencyOf(parts.subject)) : undefined;
    return level ?? classify(parts.subject, options.map(withoutMeaning), name, random);
  }
  switch (field.kind) {
    case 'object':
      return objectOf(field.fields, parts, random);
    case 'boolean':
      return isSo(parts.subject, name);
    case 'number': {
      const value = valueFor(field, parts);
      return value === null ? null : numberIn(value);
    }
    case 'array':
      return /keyword|tag|topic|theme/i.test(name)
        ? keywordsOf(parts.subject)
        : asList(valueFor(field, parts));
    case 'string':
      return /^(?:is|has|was|would|will|should)_/i.test(name)
        ? isSo(parts.subject, name)
        : valueFor(field, parts);
  }
}

function asList(value: Json): Json[] {
  return value === null ? [] : [value];
}

/** On one line, with the spaces that a model writes. */
function spaced(value: Json): string {
  return JSON.stringify(value, null, 1)
    .replace(/(?<=[[{])\n\s*|\n\s*(?=[\]}])/g, '')
    .replace(/\n\s*/g, ' ');
}
