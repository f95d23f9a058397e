import { type Hooks, type HookWorld, onFinish, readyHooks } from '../run/on-finish.js';
import type { RunResult } from '../run/pipeline.js';
import type { Unconnected, World } from '../run/world.js';
import type { OpenedJob } from './opened-job.js';
import { service } from './service.js';

/** What a run needs of its environment, found when it is asked for: the service, and what is done when the run has ended. */
export class Connection {
  #found: Promise<{ readonly access: Awaited<ReturnType<typeof service>>; readonly hooks: Hooks }> | null =
    null;

  /** @param say hears what a person should know of the service */
  constructor(
    private readonly opened: OpenedJob,
    private readonly say: (line: string) => void,
  ) {}

  /** What is around the run, with a way to the service. */
  around(place: Omit<Unconnected, 'connect'>): Unconnected {
    const connect = async (): Promise<World> => {
      this.#found ??= this.#find();
      const { address, keys } = (await this.#found).access;
      return { ...place, connect, address, keys };
    };
    return { ...place, connect };
  }

  async #find() {
    const { environment, job, settings } = this.opened;
    const hooks = readyHooks(job, environment.variable);
    return { hooks, access: await service(settings, environment, this.say) };
  }

  /** Does what the job wants done; nothing for a run that has not asked for the service. */
  async finish(result: RunResult, world: HookWorld): Promise<void> {
    if (this.#found !== null) await onFinish((await this.#found).hooks, result, world);
  }

  async close(): Promise<void> {
    await this.#found?.then(
      ({ access }) => access.close(),
      () => {},
    );
  }
}
