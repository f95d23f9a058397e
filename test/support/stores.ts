import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import type { LedgerTimes } from '../../src/store/ledger.js';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { haveRedis, type Server, startRedis } from './servers.js';

/** One kind of store, as a suite sees it. */
export interface StoreUnderTest {
  readonly kind: 'embedded' | 'redis';
  /** What `--queue` gets. */
  readonly target: string;
  /** What `PROMPTMILL_STATE_DIR` is. */
  readonly stateDir: string;
  /** What a command needs to use it. */
  readonly env: { readonly [name: string]: string };
  /** The server behind the store; null for the embedded one. */
  readonly server: Server | null;
  /** Opens the store, or opens it once more. It is closed at the end of the file, if not before. */
  open(ledgerTimes?: LedgerTimes): Promise<Store>;
}

const REDIS = 'redis-server or valkey-server';

type Suite = (store: () => StoreUnderTest, kind: StoreUnderTest['kind']) => void;

/** Runs a suite on both stores: where what it shows is a mechanism of the store. */
export function describeEachStore(name: string, suite: Suite): void {
  describeOn('embedded', name, suite);
  describeOn('redis', name, suite);
}

/**
 * Runs a suite on one store, with one server for the file. Tests keep apart by the names of their runs and queues. A
 * missing server is a failure where CI=true, and a printed reason elsewhere.
 * @param suite gets a function, because the server is there only once the tests run
 */
export function describeOn(kind: StoreUnderTest['kind'], name: string, suite: Suite): void {
  if (kind === 'redis' && !haveRedis()) {
    describeMissing(`${name} on ${kind}`, REDIS);
    return;
  }
  describe(`${name} on ${kind}`, () => {
    let server: Server | null = null;
    let stateDir = '';
    const opened: Store[] = [];

    beforeAll(async () => {
      stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
      if (kind === 'redis') server = await startRedis();
    });
    afterAll(async () => {
      for (const store of opened) await store.close();
      await server?.stop();
      rmSync(stateDir, { recursive: true, force: true });
    });

    suite(() => {
      const target = server?.url ?? 'embedded';
      const open = async (ledgerTimes?: LedgerTimes): Promise<Store> => {
        const onWarning = (): void => {};
        const store = await openStore(target, { stateDir, onWarning, ...(ledgerTimes && { ledgerTimes }) });
        opened.push(store);
        return store;
      };
      const env = { PROMPTMILL_QUEUE: target, PROMPTMILL_STATE_DIR: stateDir };
      return { kind, target, stateDir, env, server, open };
    }, kind);
  });
}

/**
 * The embedded store, for the commands of a suite that shows nothing of stores.
 * @returns what a command needs to use it
 */
export function oneStore(): () => {
  readonly PROMPTMILL_QUEUE: string;
  readonly PROMPTMILL_STATE_DIR: string;
} {
  let stateDir = '';
  beforeAll(() => {
    stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
  });
  afterAll(() => rmSync(stateDir, { recursive: true, force: true }));
  return () => ({ PROMPTMILL_QUEUE: 'embedded', PROMPTMILL_STATE_DIR: stateDir });
}

/** Runs a suite on Redis; each of its tests starts the servers that it needs. */
export function describeRedis(name: string, suite: (start: () => Promise<Server>) => void): void {
  if (haveRedis()) describe(`${name} on redis`, () => suite(() => startRedis()));
  else describeMissing(`${name} on redis`, REDIS);
}

/** In the place of a suite whose server is not there. */
export function describeMissing(name: string, needs: string): void {
  if (process.env['CI'] === 'true') throw new Error(`${name}: needs ${needs}, and CI must not skip it`);
  console.warn(`NOT RUN: ${name}. Needs ${needs}.`);
  describe.skip(`${name} (needs ${needs})`, () => {});
}
