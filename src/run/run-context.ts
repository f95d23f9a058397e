import type { Logger } from 'pino';
import type { Halt } from '../core/halt.js';
import type { ServedEndpoint } from '../service/endpoint.js';
import type { Several } from '../service/endpoint-spec.js';
import type { openStore } from '../store/open.js';
import type { RunEvent } from './events.js';

export interface RunContext extends OfflineContext {
  readonly endpoints: Several<ServedEndpoint>;
}

/** What a run has before it connects to the service: one that calls no row needs no address and no key. */
export interface OfflineContext {
  /** Gives the same result each time. @throws UsageError when the environment lacks what it needs */
  readonly connect: () => Promise<RunContext>;
  readonly halt: Halt;
  readonly log: Logger;
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  readonly quiet: boolean;
  /** Prints a line, unless the run is quiet. */
  readonly say: (line: string) => void;
  /** @default the store that the settings name; a test may keep it in memory */
  readonly openStore?: typeof openStore;
  /** Called with the manifest's path when it is on disk, before any call; null for standard output. */
  readonly onBegun?: (manifest: string | null) => Promise<void>;
  readonly onEvent?: (event: RunEvent) => void;
  /** Most rows that may be called ahead of those that are written. @default as many as the window holds */
  readonly maxUnwritten?: number;
}
