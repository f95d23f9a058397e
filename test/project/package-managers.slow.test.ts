import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '../..');

interface Manager {
  readonly name: string;
  /** What the registry has it as. */
  readonly from: string;
  readonly command: string;
  /** How the project's own commands are started. @default the command alone */
  readonly exec?: readonly string[];
  /** It has a Node.js of its own making. */
  readonly node?: boolean;
  readonly settings?: string;
}

const yarn = { from: '@yarnpkg/cli-dist', command: 'yarn', node: true };
const MANAGERS: readonly Manager[] = [
  { name: 'npm 10', from: 'npm@10', command: 'npm', exec: ['exec', '--'] },
  { name: 'npm 11', from: 'npm@11', command: 'npm', exec: ['exec', '--'] },
  { name: 'pnpm', from: 'pnpm', command: 'pnpm', exec: ['exec'] },
  { name: 'Yarn 1', from: 'yarn@1', command: 'yarn', exec: ['--silent', 'run'] },
  { ...yarn, name: 'Yarn 4 with node_modules', settings: 'nodeLinker: node-modules' },
  { ...yarn, name: "Yarn 4 with Plug'n'Play", settings: 'nodeLinker: pnp' },
  { name: 'bun', from: 'bun', command: 'bun', exec: ['x'] },
];

/** What docs/operations.md says against the one warning of Yarn 4. */
const PROJECT = JSON.stringify({
  name: 'project',
  private: true,
  type: 'module',
  dependenciesMeta: { 'msgpackr-extract': { built: false } },
});

const PROGRAM = `
  import { defineJob, run, startEmulator } from 'promptmill';
  const emulator = await startEmulator();
  const job = defineJob({
    service: { deployment: 'lm-35-turbo-instruct' },
    prompt: 'Good or bad? {{ review }}',
    answer: { labels: ['good', 'bad'] },
  });
  const env = { PROMPTMILL_BASE_URL: emulator.url, PROMPTMILL_API_KEY: emulator.keys[0] };
  for await (const { row, status } of run(job, { rows: [{ review: 'Fine.' }, { review: 'Awful.' }], env }))
    console.log(row, status);
  await emulator.close();
`;

const work = new Workplace();
let tarball: string;
let env: NodeJS.ProcessEnv;
beforeAll(() => {
  const npm = (...args: string[]): string =>
    execFileSync('npm', args, { cwd: root, encoding: 'utf8' }).trim();
  tarball = work.path(npm('pack', '--silent', '--ignore-scripts', '--pack-destination', work.folder));
  // Of what `npm test` tells its children, nothing but the registry; each manager has another name for it.
  const registry = npm('config', 'get', 'registry');
  const others = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  env = {
    ...Object.fromEntries(others),
    npm_config_registry: registry,
    YARN_NPM_REGISTRY_SERVER: registry.replace(/\/$/, ''),
    BUN_CONFIG_REGISTRY: registry,
    YARN_ENABLE_TELEMETRY: 'false',
  };
});
afterAll(() => work.remove());

/** @returns all that it says @throws with all that it says */
async function said(cwd: string, env: NodeJS.ProcessEnv, command: string, ...args: string[]) {
  const { stdout, stderr } = await execute(command, args, { cwd, env }).catch((error) => {
    throw new Error(`${error.message}\n${error.stdout}`);
  });
  return stdout + stderr;
}

it.concurrent.for(MANAGERS)(
  'installed by $name without a warning, it runs the sample job and a program',
  // They share the cores and the network.
  { timeout: 600_000 },
  async ({ name, from, command, exec = [], node = false, settings = '' }, { skip }) => {
    const folder = (part: string): string => {
      mkdirSync(work.path(join(name, part)), { recursive: true });
      return work.path(join(name, part));
    };
    const installing = said(folder('manager'), env, 'npm', 'install', '--prefix', '.', '--no-save', from);
    const refused = await installing.then(() => null, String);
    if (refused !== null) {
      console.warn(`${name} is not tried, because the registry does not give it out: ${refused}`);
      skip(refused);
    }

    const cache = folder('cache');
    const project = folder('project');
    const own = {
      ...env,
      npm_config_cache: cache,
      PNPM_CONFIG_STORE_DIR: cache,
      YARN_CACHE_FOLDER: cache,
      YARN_GLOBAL_FOLDER: cache,
      BUN_INSTALL_CACHE_DIR: cache,
      XDG_CACHE_HOME: cache,
      XDG_CONFIG_HOME: cache,
      XDG_DATA_HOME: cache,
      XDG_STATE_HOME: cache,
    };
    const bin = join(folder('manager'), 'node_modules/.bin', command);
    const runs = (...args: string[]) => said(project, own, bin, ...exec, ...args);
    const nodes = (...args: string[]) => (node ? runs('node', ...args) : said(project, own, 'node', ...args));
    work.write(join(name, 'project/package.json'), PROJECT);
    work.write(join(name, 'project/program.js'), PROGRAM);
    if (node) {
      work.write(join(name, 'project/.yarnrc.yml'), settings);
      work.write(join(name, 'project/yarn.lock'), '');
    }

    const lines = (await said(project, own, bin, 'add', node ? `promptmill@${tarball}` : tarball)).split(
      '\n',
    );
    // All codes of Yarn but those of its steps, of a build that is not wanted, and of Plug'n'Play itself, which it calls experimental.
    const warnings = lines.filter((line) =>
      /^\W*(npm )?(warn|error)|YN(?!0000|0005|0013|0085|0092)\d{4}/i.test(line),
    );
    // npm says this of settings of the machine.
    expect(warnings.filter((line) => !/Unknown \w+ config/.test(line))).toEqual([]);

    const there = (await nodes('-p', "path.dirname(require.resolve('promptmill/package.json'))")).trim();
    const sample = [join(there, 'jobs/sentiment.yaml'), '--input', join(there, 'samples/reviews.csv')];
    await runs('promptmill', 'run', ...sample, '--emulate', '--limit', '20', '--quiet');
    const records = work.read(join(name, 'project/out/reviews.emulated.csv')).match(/^R\d{4},/gm);
    expect(records).toHaveLength(20);
    expect(await nodes('program.js')).toBe('1 completed\n2 completed\n');
  },
);
