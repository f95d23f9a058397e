import type { Logger } from 'pino';
import type { Halt } from '../halt.js';
import type { ServiceAccess } from '../service/endpoint.js';
import type { RunEvent } from './events.js';

/** What a run takes from the process around it. */
export interface World extends Unconnected, ServiceAccess {}

/** The same before anybody knows whether a row is to be called: what calls none needs no address and no key. */
export interface Unconnected {
  /**
   * Finds the service, and what the job wants done when the run has ended; the same each time.
   * @throws UsageError when the environment does not have what they need
   */
  readonly connect: () => Promise<World>;
  readonly halt: Halt;
  readonly log: Logger;
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: NodeJS.WritableStream;
  /** Where messages for people go, and whether it is a terminal. */
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  readonly quiet: boolean;
  /** Says a line to a person, unless the run is quiet. */
  readonly say: (line: string) => void;
  /**
   * Told where the run keeps how far it came, when that is on disk and before anything is called; null where the output is
   * standard output.
   */
  readonly onBegun?: (manifest: string | null) => Promise<void>;
  /** Told what happens in the run, as it happens. */
  readonly onEvent?: (event: RunEvent) => void;
  /** Most rows that may be called ahead of those that are written. @default as many as the window holds */
  readonly ahead?: number;
}
