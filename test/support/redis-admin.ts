import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/** Pause between two looks, in milliseconds. */
const LOOK_MS = 20;

/** A Redis seen by its operator. */
export class RedisAdmin {
  readonly client: Redis;

  constructor(url: string) {
    this.client = new Redis(url);
    this.client.on('error', () => {});
  }

  /** How often the server has refused a command with this error, such as `OOM` or `READONLY`. */
  async refusals(error: string): Promise<number> {
    const stats = await this.client.info('errorstats');
    return Number(new RegExp(`^errorstat_${error}:count=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
  }

  /** Resolves when the server says this of itself in a section of INFO. */
  async tells(section: string, line: RegExp): Promise<void> {
    while (!line.test(await this.client.info(section))) await sleep(LOOK_MS);
  }

  /** Resolves when the server has refused so many commands with this error. */
  async refused(error: string, count: number): Promise<void> {
    while ((await this.refusals(error)) < count) await sleep(LOOK_MS);
  }

  leave(): void {
    this.client.disconnect();
  }
}
