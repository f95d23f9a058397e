import type { Logger } from 'pino';
import type { Halt } from '../halt.js';
import type { ServiceAccess } from '../service/endpoint.js';

/** What a run takes from the process around it. */
export interface World extends ServiceAccess {
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
}
