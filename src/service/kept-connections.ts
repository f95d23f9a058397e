import type { Socket } from 'node:net';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { errorCode } from '../core/errors.js';

/** Responses after which a client checks whether the server closes the connection. */
const WATCHED = 32;

/**
 * Detects a server that closes connections it promised to keep (fault 99): a request on one is lost, perhaps
 * after it was read. So the client waits a moment after its first responses. Once it has seen a close, it
 * never uses a connection twice.
 */
export class KeptConnections {
  #left = WATCHED;
  #areClosed = false;

  get areClosed(): boolean {
    return this.#areClosed;
  }

  get watches(): boolean {
    return !this.#areClosed && this.#left > 0;
  }

  async look(socket: Socket): Promise<void> {
    // When the response announces the close, our side closes at once.
    await undefined;
    if (socket.destroyed) return;
    this.#left--;
    // The second turn has read whatever came with the response.
    await endOfTurn();
    await endOfTurn();
    if (socket.readableEnded || socket.destroyed) this.#areClosed = true;
  }

  /**
   * `EPIPE`: the close had arrived before the request. A reset proves nothing: the request may have been
   * read.
   */
  wasClosedBefore(error: Error): boolean {
    const isClosed = errorCode(error) === 'EPIPE';
    if (isClosed) this.#areClosed = true;
    return isClosed;
  }
}
