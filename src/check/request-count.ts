/** How rows are grouped on their way to the service. */
export interface Grouping {
  /** Rows in a chunk. */
  readonly chunkSize: number;
  /** Size at which a chunk ends before it has all its rows; see `src/run/producer.ts`. */
  readonly chunkBytes: number;
  /** Prompts that may share one request. */
  readonly promptsPerRequest: number;
}

/**
 * Counts the requests of a run in which nothing is retried. Rows of one chunk share a request when their parameters
 * are equal, up to `promptsPerRequest` of them.
 */
export class RequestCount {
  readonly #grouping: Grouping;
  #closed = 0;
  #open = new Map<string, number>();
  #rows = 0;
  #bytes = 0;

  constructor(grouping: Grouping) {
    this.#grouping = grouping;
  }

  /** A row that is sent. @param parameters the row's own, as text; rows with equal ones share requests */
  send(bytes: number, parameters: string): void {
    this.#open.set(parameters, (this.#open.get(parameters) ?? 0) + 1);
    this.#row(bytes);
  }

  /** A row that is not sent; it counts towards the size of its chunk all the same. */
  pass(bytes: number): void {
    this.#row(bytes);
  }

  /** Requests for the rows so far. */
  get requests(): number {
    return this.#closed + this.#inOpenChunk();
  }

  #row(bytes: number): void {
    this.#rows++;
    this.#bytes += bytes;
    if (this.#rows < this.#grouping.chunkSize && this.#bytes < this.#grouping.chunkBytes) return;
    this.#closed += this.#inOpenChunk();
    this.#open.clear();
    [this.#rows, this.#bytes] = [0, 0];
  }

  #inOpenChunk(): number {
    let requests = 0;
    for (const rows of this.#open.values()) requests += Math.ceil(rows / this.#grouping.promptsPerRequest);
    return requests;
  }
}
