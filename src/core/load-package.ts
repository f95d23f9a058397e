import { createRequire } from 'node:module';

/**
 * Loads a package where it is used, which most runs never do. In the bundle it is a file of its own below
 * `dist/packages`, because users do not install it (`bundle.js`).
 */
export const loadPackage = createRequire(import.meta.url);
