import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { FastifyInstance } from 'fastify';
import { ENTRY_LIMIT } from '../../queue/chunk-queue.js';
import { type QueueView, withoutPrompts } from '../../queue/queue-views.js';
import { BULL_BOARD_HEADERS } from './guard.js';

const PATH = '/queues';
const ICON = '/assets/icon.svg';
/** Bull Board's page loads fonts from the internet. */
const FOREIGN_LINK = /<link[^>]* ?href="https?:\/\/[^>]*>/g;

/**
 * Bull Board, read-only: entries are disposable, and a run counts on being the only one, with its workers, to
 * change them. Shows no prompts.
 * @param inFull names of queues whose entries hold no prompts
 */
export async function addBullBoard(
  app: FastifyInstance,
  queues: () => Promise<readonly QueueView[]>,
  inFull: readonly string[],
): Promise<void> {
  const server = new FastifyAdapter();
  server.setBasePath(PATH);
  const adapters = new Map<QueueView, BullMQAdapter>();
  const board = createBullBoard({
    queues: [],
    serverAdapter: server,
    options: {
      uiConfig: {
        boardTitle: 'Promptmill queues',
        boardLogo: { path: ICON, width: 24, height: 24 },
        favIcon: { default: ICON, alternative: ICON },
        miscLinks: [{ text: 'Runs', url: '/' }],
        hideDocsLink: true,
        // Workers are on Promptmill's own page, and asking the server for its connections is not free.
        showWorkers: false,
      },
    },
  });

  await app.register(async (scope) => {
    scope.addHook('onRequest', async (_request, reply) => reply.helmet(BULL_BOARD_HEADERS));
    scope.addHook('onSend', async (_request, reply, payload) => {
      const isPage = typeof payload === 'string' && String(reply.getHeader('content-type')).includes('html');
      return isPage ? payload.replace(FOREIGN_LINK, '') : payload;
    });
    scope.addHook('preHandler', async () => {
      const views = await queues();
      for (const view of adapters.keys()) if (!views.includes(view)) adapters.delete(view);
      for (const view of views)
        if (!adapters.has(view)) adapters.set(view, adapterOf(view, inFull.includes(view.name)));
      board.replaceQueues([...adapters.values()]);
    });
    await scope.register(server.registerPlugin(), { prefix: PATH });
  });
}

/**
 * Bull Board calls every busy queue "rate limited", since BullMQ counts the entries of the last second. Here
 * a queue is limited only while its workers have to wait, after a 429 or in an outage.
 */
class Adapter extends BullMQAdapter {
  constructor(
    private readonly shown: QueueView['queue'],
    options: ConstructorParameters<typeof BullMQAdapter>[1],
  ) {
    super(shown, options);
  }

  override async getActiveRateLimitTtl(): Promise<number> {
    return Math.max(0, await this.shown.getRateLimitTtl(ENTRY_LIMIT.max));
  }
}

function adapterOf({ queue }: QueueView, inFull: boolean): BullMQAdapter {
  const adapter = new Adapter(queue, {
    readOnlyMode: true,
    displayName: queue.name.replace('promptmill-', ''),
  });
  if (!inFull) adapter.setFormatter('data', withoutPrompts);
  return adapter;
}
