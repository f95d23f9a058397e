import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { UsageError } from '../errors.js';
import type { Json } from '../model.js';
import { FAULT_NAMES, type Fault, faultNamed } from './fault.js';
import type { ScriptRule } from './fault-plan.js';

const count = z.number().int().min(1);

const json: z.ZodType<Json> = z.lazy(() =>
  z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(json), z.record(z.string(), json)]),
);

const reply = z.strictObject({
  status: z.number().int().min(200).max(599),
  headers: z.record(z.string(), z.union([z.string(), z.number()]).transform(String)).optional(),
  body: json.optional(),
});

const fault = z.union([z.string(), z.number()]).transform((name, context): Fault => {
  const found = faultNamed(String(name));
  if (found) return found;
  context.addIssue({ code: 'custom', message: `no fault ${JSON.stringify(name)}; there are ${FAULT_NAMES}` });
  return z.NEVER;
});

const rule = z
  .strictObject({
    request: count.optional(),
    from: count.optional(),
    to: count.optional(),
    prompt: z.string().min(1).optional(),
    times: count.optional(),
    fault: fault.optional(),
    reply: reply.optional(),
  })
  .transform((given, context): ScriptRule => {
    const { request, from = request, to = request, prompt, times } = given;
    const chosen = given.fault ?? (given.reply && scripted(given.reply));
    if (!chosen || (given.fault && given.reply)) {
      context.addIssue({ code: 'custom', message: 'needs one of fault and reply' });
      return z.NEVER;
    }
    return {
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
      ...(prompt === undefined ? {} : { prompt }),
      ...(times === undefined ? {} : { times }),
      fault: chosen,
    };
  });

function scripted({ status, headers, body = '' }: z.infer<typeof reply>): Fault {
  return { kind: 'reply', name: 'reply', reply: { status, body, ...(headers ? { headers } : {}) } };
}

/**
 * Reads a fault script: a list of rules, as YAML or JSON. The first rule that fits a request counts.
 * @throws UsageError with the file, the rule and what is wrong with it
 */
export function readFaultScript(path: string): ScriptRule[] {
  let content: unknown;
  try {
    content = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError(
      'fault_script_unreadable',
      `cannot read --script ${path}: ${error instanceof Error ? error.message : String(error)}`,
      'docs/emulator.md shows what a script looks like.',
      { cause: error },
    );
  }
  const rules = z.array(rule).safeParse(content);
  if (rules.success) return rules.data;
  const problems = rules.error.issues.map(({ path: where, message }) => {
    const [index, ...field] = where;
    return typeof index === 'number' ? `rule ${[index + 1, ...field].join('.')}: ${message}` : message;
  });
  throw new UsageError(
    'bad_fault_script',
    `--script ${path}: ${problems.join('; ')}`,
    'docs/emulator.md shows what a script looks like.',
  );
}
