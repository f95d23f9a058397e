import { FORMS } from './forms.js';
import type { Reply } from './refusal.js';

/** What can go wrong on the wire, beyond a reply. */
const WIRE_FAULTS = ['reset', 'truncate', 'garbage', 'drip', 'hang'] as const;
type WireFault = (typeof WIRE_FAULTS)[number];

/** Something other than the usual answer. */
export type Fault =
  /** A status from 300 to 599, with a body that was seen with it. */
  | { readonly kind: 'status'; readonly name: string; readonly status: number }
  /** 429 for an account without credit. */
  | { readonly kind: 'insufficient-quota'; readonly name: string }
  /** Word for word what a script says. */
  | { readonly kind: 'reply'; readonly name: string; readonly reply: Reply }
  /** A good answer in one of the less usual {@link FORMS}. */
  | { readonly kind: 'form'; readonly name: string }
  /**
   * `reset`: the connection is reset once the request is read; `truncate`: half of the answer; `garbage`: a page of
   * HTML with status 200; `drip`: a byte of the answer each second; `hang`: no answer.
   */
  | { readonly kind: WireFault; readonly name: string };

/** The names of all faults, for people. */
export const FAULT_NAMES = `a status from 300 to 599, ${WIRE_FAULTS.join(', ')}, insufficient-quota, ${[...FORMS.keys()].join(', ')}`;

/** The fault of a name, or `null` when there is none. */
export function faultNamed(name: string): Fault | null {
  const status = /^[345]\d\d$/.test(name) ? Number(name) : null;
  if (status !== null) return { kind: 'status', name, status };
  const wire = WIRE_FAULTS.find((known) => known === name);
  if (wire) return { kind: wire, name };
  if (FORMS.has(name)) return { kind: 'form', name };
  return name === 'insufficient-quota' ? { kind: 'insufficient-quota', name } : null;
}
