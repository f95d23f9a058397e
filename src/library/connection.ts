import { type HookContext, type Hooks, onFinish, readyHooks } from '../run/on-finish.js';
import type { RunResult } from '../run/pipeline.js';
import type { OfflineContext, RunContext } from '../run/run-context.js';
import type { OpenedJob } from './opened-job.js';
import { service } from './service.js';

/** The service and the hooks of a run, found in the environment when first needed. */
export class Connection {
  #found: Promise<{ readonly access: Awaited<ReturnType<typeof service>>; readonly hooks: Hooks }> | null =
    null;

  /** @param say takes messages about the service for the user */
  constructor(
    private readonly opened: OpenedJob,
    private readonly say: (line: string) => void,
  ) {}

  offline(context: Omit<OfflineContext, 'connect'>): OfflineContext {
    const connect = async (): Promise<RunContext> => {
      this.#found ??= this.#find();
      const { endpoints } = (await this.#found).access;
      return { ...context, connect, endpoints };
    };
    return { ...context, connect };
  }

  async #find() {
    const { environment, job, settings } = this.opened;
    const hooks = readyHooks(job, environment.variable);
    return { hooks, access: await service(settings, environment, this.say) };
  }

  /** Runs the hooks, unless the run never asked for the service. */
  async finish(result: RunResult, context: HookContext): Promise<void> {
    if (this.#found !== null) await onFinish((await this.#found).hooks, result, context);
  }

  async close(): Promise<void> {
    await this.#found?.then(
      ({ access }) => access.close(),
      () => {},
    );
  }
}
