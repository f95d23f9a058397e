import type { Json } from '../model.js';
import { invalidRequest } from './refusal.js';

/** A JSON object. */
export type Body = { readonly [field: string]: Json };

/** Checks one field's value; throws a Refusal whose message names the field. */
export type Check = (value: Json, field: string) => void;

export function optional(check: Check): Check {
  return (value, field) => {
    if (value !== null) check(value, field);
  };
}

export function number(minimum: number, maximum = Number.POSITIVE_INFINITY): Check {
  return (value, field) => {
    if (typeof value !== 'number') throw wrongType(value, 'number', field);
    checkRange(value, minimum, maximum, field);
  };
}

export function integer(minimum: number, maximum = Number.POSITIVE_INFINITY): Check {
  return (value, field) => {
    if (typeof value !== 'number' || !Number.isInteger(value)) throw wrongType(value, 'integer', field);
    checkRange(value, minimum, maximum, field);
  };
}

function checkRange(value: number, minimum: number, maximum: number, field: string): void {
  if (value < minimum) throw invalidRequest(`${value} is less than the minimum of ${minimum} - '${field}'`);
  if (value > maximum)
    throw invalidRequest(`${value} is greater than the maximum of ${maximum} - '${field}'`);
}

export function boolean(value: Json, field: string): void {
  if (typeof value !== 'boolean') throw wrongType(value, 'boolean', field);
}

export function string(value: Json, field: string): void {
  if (typeof value !== 'string') throw wrongType(value, 'string', field);
}

/** A string, or an array of 1 to `most` strings. */
export function strings(most: number): Check {
  return (value, field) => {
    if (typeof value === 'string') return;
    if (!Array.isArray(value)) throw wrongType(value, 'string', field);
    if (value.length === 0) throw invalidRequest(`[] is too short - '${field}'`);
    if (value.length > most) throw invalidRequest(`an array of ${value.length} is too long - '${field}'`);
    value.forEach((item: Json, index) => {
      string(item, `${field}.${index}`);
    });
  };
}

export function logitBias(value: Json, field: string): void {
  if (!isObject(value)) throw wrongType(value, 'object', field);
  for (const [token, bias] of Object.entries(value)) {
    if (!/^\d+$/.test(token)) throw invalidRequest(`'${token}' is not a token id - '${field}'`);
    number(-100, 100)(bias, `${field}.${token}`);
  }
}

/** An object whose one member asks for usage at the end of a stream. */
export function streamOptions(value: Json, field: string): void {
  if (!isObject(value)) throw wrongType(value, 'object', field);
  for (const [option, choice] of Object.entries(value)) {
    if (option !== 'include_usage') throw unknownField(`${field}.${option}`);
    boolean(choice, `${field}.${option}`);
  }
}

export function unknownField(field: string): Error {
  return invalidRequest(`Unrecognized request argument supplied: ${field}`);
}

function wrongType(value: Json, type: string, field: string): Error {
  const shown = typeof value === 'string' ? `'${value.slice(0, 50)}'` : JSON.stringify(value).slice(0, 50);
  return invalidRequest(`${shown} is not of type '${type}' - '${field}'`);
}

export function isObject(value: Json): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
