import { describe } from 'vitest';
import { describeMissing } from '../../support/stores.js';
import { chromiumPath } from './chromium.js';

/** A suite that needs a browser. A missing one is a failure where CI=true, and a printed reason elsewhere. */
export function describeInChromium(name: string, suite: () => void): void {
  if (chromiumPath() === null) describeMissing(name, 'chromium');
  else describe(name, suite);
}
