import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

// What the sources use of undici. Its index loads all of it, and with its cookies Node's own copy: 60 ms and 8 MB of each start.
const UNDICI = `
  import api from 'undici/lib/api/index.js';
  import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';
  Object.assign(Dispatcher.prototype, api);
  export { default as buildConnector } from 'undici/lib/core/connect.js';
  export { default as Client } from 'undici/lib/dispatcher/client.js';
  export { default as Agent } from 'undici/lib/dispatcher/agent.js';
  export { default as Pool } from 'undici/lib/dispatcher/pool.js';
  export { default as ProxyAgent } from 'undici/lib/dispatcher/proxy-agent.js';
`;
const undici = {
  name: 'undici',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^undici$/ }, ({ path }) => ({ path, namespace: 'parts' }));
    onLoad({ filter: /^undici$/, namespace: 'parts' }, () => ({
      contents: UNDICI,
      resolveDir: import.meta.dirname,
    }));
  },
};

// What the sources load with `core/load-package.ts`: in the bundle that reads a file, so that users need not install these.
const LATE = [
  'gpt-tokenizer/encoding/cl100k_base',
  'gpt-tokenizer/encoding/o200k_base',
  'gpt-tokenizer/encoding/p50k_base',
  'ajv',
  'ajv/dist/2020.js',
  'cron-parser',
  'hdr-histogram-js',
  'iconv-lite',
  'jsonrepair',
  'pino-pretty',
];
const late = {
  name: 'late',
  setup({ onLoad }) {
    onLoad({ filter: /src\/core\/load-package\.ts$/ }, ({ path }) => ({
      contents: `
        import { createRequire } from 'node:module';
        import { fileURLToPath } from 'node:url';
        import { packageFile } from './package-file.js';
        const load = createRequire(import.meta.url);
        export const loadPackage = (name) => load(fileURLToPath(packageFile(\`dist/packages/\${name}.cjs\`)));
      `,
      resolveDir: dirname(path),
    }));
  },
};
// hdr-histogram-js brings a loader of WebAssembly, which is never used here. It has no text of its licence, so it is left out.
const unused = {
  name: 'unused',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^@assemblyscript\/loader$/ }, ({ path }) => ({ path, namespace: 'unused' }));
    onLoad({ filter: /^/, namespace: 'unused' }, () => ({ contents: '' }));
  },
};
// fastify's logger that logs nothing has no text of its licence, so these few lines replace it.
const SILENT = `
  const nothing = () => {};
  module.exports = { fatal: nothing, error: nothing, warn: nothing, info: nothing, debug: nothing, trace: nothing };
`;
const silent = {
  name: 'silent',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^abstract-logging$/ }, ({ path }) => ({ path, namespace: 'silent' }));
    onLoad({ filter: /^/, namespace: 'silent' }, () => ({ contents: SILENT }));
  },
};
const packages = await build({
  entryPoints: Object.fromEntries(LATE.map((name) => [name, name])),
  outdir: 'dist/packages',
  outExtension: { '.js': '.cjs' },
  bundle: true,
  format: 'cjs',
  // The tables of tokens, half as large again in escapes.
  charset: 'utf8',
  plugins: [unused],
  platform: 'node',
  target: 'node20',
  metafile: true,
});

// Part of `npm run build`: puts the command line, the library and what they import into few files. A run would otherwise load
// some 800 of them, which takes longer than all else before its first call; and users install only `dependencies`, none of
// which it asks for: the types name some of them. The modules that tsc made stay beside it for the tests, and are not published.
// Names stay as they are written, and each file stands below its path, so that a stack trace can be read without a source map.
const { metafile } = await build({
  entryPoints: ['src/cli.ts', 'src/index.ts'],
  outdir: 'dist',
  chunkNames: 'bundle/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  metafile: true,
  plugins: [undici, late, silent],
  // Packages that are written as CommonJS ask for Node's own modules with `require`.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module';\nconst require = requireFrom(import.meta.url);",
  },
  external: [
    // A part of another package that it tries, and does without.
    'msgpackr-extract',
  ],
});

// The script and the style that each HTML report has in it.
const page = await build({
  entryPoints: ['src/render/assets/report.js', 'src/render/assets/style.css'],
  outdir: 'dist/render/assets',
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  // Browsers of 2022 know no rules within rules.
  supported: { nesting: false },
  metafile: true,
});

// The pages of the dashboard are plain files; the style, which is that of the reports too, is beside them.
cpSync('src/ops/web/assets', 'dist/ops/web/assets', { recursive: true });
cpSync('dist/render/assets/style.css', 'dist/ops/web/assets/style.css');

// The licences of the bundled packages must go with every copy. A package without a file for its licence has it in its README.
const inputs = { ...metafile.inputs, ...packages.metafile.inputs, ...page.metafile.inputs };
const folders = Object.keys(inputs).flatMap(
  (path) => /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [],
);
const licences = [...new Set(folders)].sort().map((folder) => {
  const read = (file) => readFileSync(join(folder, file), 'utf8');
  const { name, version, license } = JSON.parse(read('package.json'));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file === undefined ? /^## licen[cs]e\s+([\s\S]*)/im.exec(read('README.md'))?.[1] : read(file);
  return `${name} ${version}: ${license}\n\n${text}`;
});
writeFileSync('dist/bundle/licences.txt', licences.join('\n\n'));

// `npm pack` puts bullmq and its dependencies into the package (`bundleDependencies`). This one is optional, and its install script
// makes pnpm fail and npm 11 warn.
for (const name of ['msgpackr-extract', '@msgpackr-extract'])
  rmSync(join('node_modules', name), { recursive: true, force: true });
