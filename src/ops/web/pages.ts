import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { packageFile } from '../../core/package-file.js';
import { frontPageOf } from './front-page.js';
import { EMBEDDED_QUEUES, type QueueWatch, queueSections } from './queues.js';
import { runPageOf } from './run-page.js';
import type { FleetWatch, WatchedRun } from './watch.js';

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

interface Asset {
  readonly body: Buffer;
  readonly type: string;
  readonly etag: string;
}

const FILES = ['dashboard.js', 'run.js', 'dom.js', 'style.css', 'icon.svg'] as const;

interface PagesOptions {
  readonly watch: FleetWatch;
  /** Null for the embedded store. */
  readonly queues: QueueWatch | null;
  readonly version: string;
  readonly problems: () => readonly string[];
}

export function addPages(app: FastifyInstance, { watch, queues, version, problems }: PagesOptions): void {
  for (const name of FILES) {
    const asset = read(name);
    app.get(`/assets/${name}`, (request, reply) => send(request, reply, asset));
  }
  // Browsers ask for it on pages that are not HTML.
  const icon = read('icon.svg');
  app.get('/favicon.ico', (request, reply) => send(request, reply, icon));
  const dashboard = read('dashboard.html');
  app.get('/', (request, reply) => send(request, reply, dashboard));
  app.get('/api/state', async () => {
    const shown = queues === null ? EMBEDDED_QUEUES : queueSections(await queues.latest());
    return frontPageOf(await watch.view(), version, new Date(), problems(), shown);
  });

  const run = read('run.html');
  const find = async ({ id }: { id: string }): Promise<WatchedRun | undefined> =>
    (await watch.view()).runs.find(({ beat }) => beat.run === id);
  app.get<{ Params: { id: string } }>('/runs/:id', async (request, reply) => {
    if ((await find(request.params)) === undefined) reply.code(404);
    return send(request, reply, run);
  });
  app.get<{ Params: { id: string } }>('/api/runs/:id', async ({ params }, reply) => {
    const seen = await find(params);
    return seen === undefined ? unknownRun(reply) : runPageOf(seen, (await watch.view()).workers);
  });
  app.get<{ Params: { id: string } }>('/runs/:id/summary.json', async ({ params }, reply) => {
    const seen = await find(params);
    if (seen === undefined) return unknownRun(reply);
    return reply
      .type('application/json; charset=utf-8')
      .send(`${JSON.stringify(seen.beat.summary, null, 2)}\n`);
  });
}

const unknownRun = (reply: FastifyReply): FastifyReply =>
  reply.code(404).send({ error: 'no such run on the board; runs are remembered for 30 days' });

function read(name: string): Asset {
  const body = readFileSync(packageFile(`dist/ops/web/assets/${name}`));
  const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
  return { body, type, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 20)}"` };
}

function send(request: FastifyRequest, reply: FastifyReply, { body, type, etag }: Asset): FastifyReply {
  // Cached by the browser but revalidated each time, so that an update shows at once.
  reply.headers({ etag, 'cache-control': 'private, no-cache' });
  if (request.headers['if-none-match'] === etag) return reply.code(304).send();
  return reply.type(type).send(body);
}
