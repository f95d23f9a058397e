import type { Body } from './checks.js';
import type { Delivery } from './delivery.js';
import type { DrawnFault } from './fault-plan.js';
import { faultReply, garbage, insufficientQuota } from './fault-replies.js';
import { FORMS } from './forms.js';
import type { Hint } from './rate-limited.js';
import type { Reply } from './refusal.js';
import type { Target } from './routes.js';

/** What a fault puts in the place of an answer; `null` when it needs the answer. */
export function inPlaceOfAnswer({ fault, random }: DrawnFault, target: Target, hint: Hint): Delivery | null {
  const whole = (reply: Reply): Delivery => ({ kind: 'whole', reply });
  switch (fault.kind) {
    case 'status':
      return whole(faultReply(fault.status, target, hint, random));
    case 'insufficient-quota':
      return whole(insufficientQuota());
    case 'reply':
      return whole(fault.reply);
    case 'garbage':
      return whole(garbage());
    case 'reset':
    case 'hang':
      return { kind: fault.kind };
    case 'truncate':
    case 'drip':
    case 'form':
      return null;
  }
}

/** An answer as a fault leaves it. */
export function withFault(reply: Reply & { readonly body: Body }, drawn: DrawnFault | null): Delivery {
  switch (drawn?.fault.kind) {
    case 'form': {
      const form = FORMS.get(drawn.fault.name);
      return { kind: 'whole', reply: form ? { ...reply, body: form(reply.body) } : reply };
    }
    default:
      return cutOrSlow(reply, drawn) ?? { kind: 'whole', reply };
  }
}

/** An answer that does not come whole; `null` when the fault is another one. */
export function cutOrSlow(reply: Reply, drawn: DrawnFault | null): Delivery | null {
  switch (drawn?.fault.kind) {
    case 'truncate':
      return { kind: 'truncate', reply, random: drawn.random };
    case 'drip':
      return { kind: 'drip', reply };
    default:
      return null;
  }
}
