import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

const ROOT = join(import.meta.dirname, '../..');

/** `docker compose` takes `$$` for a dollar, which is none of its own. */
const text = z.string().transform((value) => value.replaceAll('$$', '$'));
const seconds = z.string().regex(/^\d+s$/);

/** What of Compose's form the file uses; an unknown field is a slip of the pen. */
const service = z.strictObject({
  image: z.string(),
  build: z.literal('.').optional(),
  init: z.boolean().optional(),
  user: z.string(),
  read_only: z.boolean(),
  tmpfs: z.array(z.string()).optional(),
  cap_drop: z.array(z.string()),
  security_opt: z.array(z.string()),
  restart: z.string(),
  stop_grace_period: seconds.optional(),
  profiles: z.array(z.string()).optional(),
  command: z.array(text),
  deploy: z.strictObject({ replicas: z.number() }).optional(),
  environment: z.record(z.string(), text).default({}),
  secrets: z.array(z.string()),
  ports: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  depends_on: z.record(z.string(), z.strictObject({ condition: z.literal('service_healthy') })).optional(),
  healthcheck: z.strictObject({
    test: z.array(text),
    interval: seconds,
    timeout: seconds,
    start_period: seconds.optional(),
    retries: z.number(),
  }),
});

const compose = z
  .object({
    name: z.string(),
    services: z.strictObject({ redis: service, work: service, serve: service, emulator: service }),
    volumes: z.record(z.string(), z.null()),
    secrets: z.record(z.string(), z.strictObject({ file: z.string() })),
  })
  .catchall(z.unknown());

export type ComposeService = z.infer<typeof service>;
export type Compose = z.infer<typeof compose>;

/** `docker-compose.yml` as Compose would read it, but for the variables of its own environment. */
export function readCompose(): Compose {
  return compose.parse(parse(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }));
}
