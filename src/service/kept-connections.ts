import type { Socket } from 'node:net';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { errorCode } from '../errors.js';

/** Answers after which a client looks whether the server closes the connection. */
const WATCHED = 32;

/**
 * Finds out whether a server closes the connections that it promises to keep (fault 99). A request on such a connection is lost, and
 * nobody can tell for certain whether it was read. So after its first answers a client gives the end of the connection time to come in
 * before it sends the next request; once it has seen one, it asks the server to close each connection, and uses none twice.
 */
export class KeptConnections {
  #left = WATCHED;
  #areClosed = false;

  /** Whether the server closes them without a word. */
  get areClosed(): boolean {
    return this.#areClosed;
  }

  get watches(): boolean {
    return !this.#areClosed && this.#left > 0;
  }

  /** Looks whether a connection ends right behind its answer. */
  async look(socket: Socket): Promise<void> {
    // Where the answer itself says that it is the last one, the connection is closed from here, at once.
    await undefined;
    if (socket.destroyed) return;
    this.#left--;
    // The second turn has read what came with the answer.
    await endOfTurn();
    await endOfTurn();
    if (socket.readableEnded || socket.destroyed) this.#areClosed = true;
  }

  /**
   * Whether a request on a kept connection failed because the server had closed it before. `EPIPE`: its end had come in, and the
   * request was refused by a closed socket. A reset may also come from a server that has read the request.
   */
  wasClosedBefore(error: Error): boolean {
    const isClosed = errorCode(error) === 'EPIPE';
    if (isClosed) this.#areClosed = true;
    return isClosed;
  }
}
