import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { PromptmillError } from '../../src/core/errors.js';
import type { Row } from '../../src/core/model.js';
import { type InputSpec, rows, type Survey, survey } from '../../src/source/source.js';

/** A directory that goes when the test ends. */
export function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'promptmill-source-'));
  // Not a hook of this file: files that run together load it once, and only the first of them would have it.
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** Path of a file of that name with that content; it goes when the test ends. */
export function input(name: string, content: string | Uint8Array): string {
  const path = join(scratch(), name);
  writeFileSync(path, content);
  return path;
}

/** Both readings of an input. */
export async function read(spec: InputSpec): Promise<{ surveyed: Survey; rows: Row[] }> {
  const surveyed = await survey(spec);
  const all: Row[] = [];
  for await (const row of rows(spec, surveyed)) all.push(row);
  return { surveyed, rows: all };
}

/** The rows' values, without their names. */
export async function cells(spec: InputSpec): Promise<unknown[][]> {
  return (await read(spec)).rows.map((row) => [...row.fields.values()]);
}

/** Expects the survey to refuse the input: with this code, naming the file, and saying what to do. */
export async function expectRefused(spec: InputSpec, code: string, message: RegExp | string): Promise<void> {
  const error = await survey(spec).then(
    () => expect.fail(`the survey of ${spec.path} took it`),
    (thrown: PromptmillError) => thrown,
  );
  expect(error).toMatchObject({ name: 'UsageError', code, exit: 2, hint: expect.stringMatching(/\.$/) });
  expect(error.message).toMatch(message);
  expect(error.message).toContain(spec.name ?? spec.path);
}
