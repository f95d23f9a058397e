import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { EndpointStats } from './stub.js';

/** The endpoint of `stub.ts`, in its process. */
export class Endpoint {
  private constructor(
    private readonly process: ChildProcess,
    readonly url: string,
  ) {}

  static async start(): Promise<Endpoint> {
    const child = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'stub.ts')], {
      cwd: join(import.meta.dirname, '..'),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [port] = await once(child.stdout, 'data');
    return new Endpoint(child, `http://127.0.0.1:${String(port).trim()}`);
  }

  /** Forgets the calls so far; from now on answers come after so many milliseconds. */
  async begin(latencyMs: number): Promise<void> {
    await fetch(`${this.url}/begin/${latencyMs}`);
  }

  /** Of the calls since the beginning. */
  async stats(): Promise<EndpointStats> {
    const response = await fetch(`${this.url}/stats`);
    const stats: EndpointStats = JSON.parse(await response.text());
    return stats;
  }

  stop(): void {
    this.process.kill();
  }
}
