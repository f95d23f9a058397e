import { LEASE_MS, OUTCOME_TTL_MS } from './ledger.js';

export interface LedgerTimes {
  /** A lease that is not renewed expires after this time. @default LEASE_MS */
  readonly leaseMs: number;
  /** Outcomes of a run that nobody continues expire after this time. @default OUTCOME_TTL_MS */
  readonly outcomeTtlMs: number;
}

export const LEDGER_TIMES: LedgerTimes = { leaseMs: LEASE_MS, outcomeTtlMs: OUTCOME_TTL_MS };
