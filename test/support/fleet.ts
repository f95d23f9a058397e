import { afterEach, beforeEach, expect } from 'vitest';
import type { Child } from './children.js';
import type { Server } from './servers.js';
import { describeRedis } from './stores.js';
import { Trial, type TrialOptions } from './trial.js';
import { startFleetWorkerProcess, startWorkerProcess, type WorkerProcessOptions } from './worker-process.js';

/** What a worker is, apart from the trial whose calls it makes. */
type OneWorker = Omit<WorkerProcessOptions, 'queue' | 'service'>;

/** Workers in processes of their own on a server of their own, with the run whose calls they make. */
class Fleet {
  #workers: Child[] = [];
  #trial: Trial | null = null;

  constructor(private readonly server: Server) {}

  async begin(options: Omit<TrialOptions, 'queue'>): Promise<Trial> {
    this.#trial = await Trial.begin({ ...options, queue: this.server.url });
    return this.#trial;
  }

  /** Starts a worker for the job of the trial, and resolves when it is ready. */
  async worker(options: OneWorker): Promise<Child> {
    return await this.#started(startWorkerProcess({ ...options, ...this.#places }));
  }

  /** Starts one that finds its jobs itself, as `promptmill work` does. */
  async fleetWorker(options: Omit<OneWorker, 'chunkSize'>): Promise<Child> {
    return await this.#started(startFleetWorkerProcess({ ...options, ...this.#places }));
  }

  get #places(): { queue: string; service: string } {
    if (this.#trial === null) throw new Error('a fleet begins with its trial');
    return { queue: this.server.url, service: this.#trial.service.url };
  }

  async #started(child: Child): Promise<Child> {
    this.#workers.push(child);
    expect(await child.line()).toBe('ready');
    return child;
  }

  /** Leaves no process behind. */
  async end(): Promise<void> {
    for (const worker of this.#workers) await worker.kill();
    await this.#trial?.end();
    await this.server.stop();
  }
}

/** Runs a suite on Redis, with a fleet for each test. */
export function describeFleet(name: string, suite: (fleet: () => Fleet) => void): void {
  describeRedis(name, (start) => {
    let fleet: Fleet;
    beforeEach(async () => {
      fleet = new Fleet(await start());
    });
    afterEach(() => fleet.end());
    suite(() => fleet);
  });
}
