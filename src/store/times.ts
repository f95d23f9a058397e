import { LEASE_MS, OUTCOME_TTL_MS } from './ledger.js';

/** How long things last in a ledger. Tests shorten it. */
export interface LedgerTimes {
  /** Milliseconds after which a lease that is not renewed runs out. @default LEASE_MS */
  readonly leaseMs: number;
  /** Milliseconds after which the outcomes of a run that nobody continues go. @default OUTCOME_TTL_MS */
  readonly outcomeTtlMs: number;
}

export const LEDGER_TIMES: LedgerTimes = { leaseMs: LEASE_MS, outcomeTtlMs: OUTCOME_TTL_MS };
