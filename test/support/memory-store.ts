import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Counts } from '../../src/core/counters.js';
import type { CalledOutcome } from '../../src/core/model.js';
import { LedgerState, type OutcomeLocation, settledAt } from '../../src/store/embedded/ledger-state.js';
import { EmbeddedQueues } from '../../src/store/embedded/queue-backend.js';
import { StoreHealth } from '../../src/store/health.js';
import type { Cell, Folder, KeyValue, Listed } from '../../src/store/key-value.js';
import {
  type Answer,
  type Batch,
  type ChunkKey,
  LEASE_MS,
  type Ledger,
  NO_ANSWER,
  type Progress,
  SettledRows,
  UNKNOWN_TEXT,
} from '../../src/store/ledger.js';
import type { Store } from '../../src/store/store.js';

/** The embedded ledger without its file: what it decides, and nothing that outlives the process. */
class MemoryLedger implements Ledger {
  readonly isShared = false;
  readonly settled = new SettledRows();
  readonly #state = new LedgerState();

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counts | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const at = Date.now();
    return this.#state.open({ at, run, execution, committed, calls, isLostRepeated, leaseMs: LEASE_MS });
  }

  async write(batch: Batch): Promise<readonly Answer[]> {
    const places = batch.settled.flatMap(({ outcome }) => (outcome === null ? [] : [placeOf(outcome)]));
    const answers = this.#state.write({ ...batch, settled: settledAt(batch.settled, places) }, Date.now());
    this.settled.tell(batch.settled);
    return batch.reservations.map(({ run, rows, looks }, i) => {
      const answer = answers[i] ?? NO_ANSWER;
      if (!looks) return answer;
      const open = rows.filter((_, row) => answer.rows[row] === 'granted').map(({ row }) => row);
      return { ...answer, interim: this.#interimOf(run, open) };
    });
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    this.#state.stop({ at: Date.now(), run, execution, reason });
  }

  async progress(run: string, firsts: readonly number[]): Promise<Progress> {
    return this.#state.progress(run, firsts);
  }

  async waiting(run: string): Promise<number> {
    return [...this.#state.chunksOf(run).values()].reduce((sum, chunk) => sum + chunk.size, 0);
  }

  async deaths(run: string): Promise<ReadonlyMap<number, number>> {
    return new Map(this.#state.factsOf(run).deaths);
  }

  async outcomes({ run, first }: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>> {
    return outcomesIn(this.#state.chunksOf(run).get(first) ?? new Map());
  }

  async interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>> {
    return this.#interimOf(run, rows);
  }

  #interimOf(run: string, rows: readonly number[]): ReadonlyMap<number, CalledOutcome> {
    const known = this.#state.interimOf(run);
    return outcomesIn(
      new Map(
        rows.flatMap((row) => {
          const interim = known.get(row);
          return interim === undefined ? [] : [[row, interim.place] as const];
        }),
      ),
    );
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    this.#state.forget({ at: Date.now(), run, committed, firsts, leaseMs: LEASE_MS });
  }

  async close(run: string): Promise<void> {
    this.#state.close(run);
  }
}

const placeOf = (own: CalledOutcome): OutcomeLocation => {
  const text = JSON.stringify(own);
  return { own: JSON.parse(text), offset: 0, bytes: text.length, isUnknown: text.includes(UNKNOWN_TEXT) };
};

function outcomesIn(places: ReadonlyMap<number, OutcomeLocation>): ReadonlyMap<number, CalledOutcome> {
  return new Map([...places].flatMap(([row, { own }]) => (own === null ? [] : [[row, own] as const])));
}

/** Small texts by name, as long as the process lives. */
class MemoryKeyValue implements KeyValue {
  readonly #texts = new Map<string, { readonly text: string; readonly at: number; readonly until: number }>();

  async get(folder: Folder, name: string): Promise<Cell> {
    const now = Date.now();
    const found = this.#texts.get(`${folder}/${name}`);
    return { text: found !== undefined && found.until > now ? found.text : null, written: false, now };
  }

  async put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void> {
    const at = Date.now();
    this.#texts.set(`${folder}/${name}`, { text, at, until: at + ttlMs });
  }

  async swap(
    folder: Folder,
    name: string,
    before: string | null,
    after: string,
    ttlMs: number,
  ): Promise<Cell> {
    const held = await this.get(folder, name);
    if (held.text !== before) return held;
    await this.put(folder, name, after, ttlMs);
    return { ...held, text: after, written: true };
  }

  async list(folder: Folder, withinMs = Number.POSITIVE_INFINITY): Promise<readonly Listed[]> {
    const now = Date.now();
    return [...this.#texts]
      .filter(([path, { at, until }]) => path.startsWith(`${folder}/`) && until > now && now - at <= withinMs)
      .map(([path, { text, at }]) => ({ name: path.slice(folder.length + 1), text, ageMs: now - at }))
      .sort((a, b) => a.ageMs - b.ageMs);
  }

  async remove(folder: Folder, name: string): Promise<void> {
    this.#texts.delete(`${folder}/${name}`);
  }
}

/** A store for several runs, one after the other or beside each other, as a server is. */
export class MemoryStore {
  readonly #ledger = new MemoryLedger();
  readonly #keyValue = new MemoryKeyValue();
  /** The file of schedulers is never written: runs have none. */
  readonly #queues = new EmbeddedQueues(
    join(tmpdir(), 'no-schedulers.json'),
    () => null,
    () => {},
  );

  /** Closing it leaves what is in it for the next run. */
  open(): Store {
    return {
      name: 'memory',
      ledger: this.#ledger,
      keyValue: this.#keyValue,
      health: new StoreHealth('memory'),
      ping: async () => {},
      backendFactory: this.#queues.backendFactory,
      connection: {},
      describe: () => 'memory',
      close: async () => {},
    };
  }
}
