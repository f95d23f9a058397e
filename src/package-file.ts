import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const root = pathToFileURL(createRequire(import.meta.url).resolve('promptmill/package.json'));

/** Where a file of this package is: its place is the same for the sources, for their modules in `dist`, and for the bundle. */
export const packageFile = (path: string): URL => new URL(path, root);
