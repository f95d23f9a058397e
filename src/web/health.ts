import type { FastifyInstance } from 'fastify';
import type { FleetWatch } from './watch.js';

/** For a supervisor: `/healthz` while the process answers, `/readyz` while its store does too. They tell nothing else. */
export function addHealth(app: FastifyInstance, watch: FleetWatch): void {
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const { ready, silentMs } = await watch.view();
    if (ready) return { status: 'ready' };
    const since =
      silentMs === null ? 'has not answered yet' : `is silent for ${Math.round(silentMs / 1000)} s`;
    return reply.code(503).send({ status: 'not ready', reason: `the store ${since}` });
  });
}
