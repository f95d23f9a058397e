import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const root = pathToFileURL(createRequire(import.meta.url).resolve('promptmill/package.json'));

/** The path is the same for the sources, the modules in `dist`, and the bundle. */
export const packageFile = (path: string): URL => new URL(path, root);
