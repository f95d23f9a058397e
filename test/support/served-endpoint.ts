import type { ServedEndpoint } from '../../src/service/endpoint.js';
import { KeyRing } from '../../src/service/keys.js';

/** An endpoint without a quota, at a port where nobody listens unless another address is given. */
export const servedEndpoint = (baseUrl = 'http://127.0.0.1:9', name = 'd'): ServedEndpoint => ({
  ...{ name, deployment: name },
  address: { baseUrl, segment: 'openai' },
  keys: new KeyRing(['a-key-for-tests-only']),
  quota: { requestsPerMinute: null, tokensPerMinute: null },
});
