import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';
import { readCompose } from '../support/compose.js';
import { Workplace } from '../support/promptmill.js';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const work = new Workplace();
afterAll(() => work.remove());

/** Every name that Promptmill asks the environment for. */
function variablesRead(): Set<string> {
  const names = new Set<string>();
  const asked = new Proxy<NodeJS.ProcessEnv>(
    {},
    { get: (_, name) => void (typeof name === 'string' && names.add(name)) },
  );
  readEnvironment(asked, '/no/such/file');
  return names;
}

describe('docker-compose.yml', () => {
  const { services, secrets, volumes } = readCompose();
  const { redis, ...ours } = services;
  const all = Object.entries(services);

  it.each(Object.entries(ours))('starts %s by a command and options that exist', async (_, { command }) => {
    const [name = '', ...rest] = command;
    const { stdout } = await work.call([name, '--help']);
    expect(stdout).toContain(`Usage: promptmill ${name} `);
    for (const option of rest.filter((word) => word.startsWith('-')))
      expect(stdout).toMatch(new RegExp(`^ +${option}[ ,]`, 'm'));
  });

  it('sets only variables that Promptmill reads', () => {
    const known = variablesRead();
    expect(known).toContain('PROMPTMILL_API_KEY_FILE');
    const set = Object.values(ours).flatMap(({ environment }) => Object.keys(environment));
    expect(set.filter((name) => !known.has(name))).toEqual([]);
  });

  it('hands secrets over in files, of which each service has only its own', () => {
    for (const [name, { command, environment, healthcheck, secrets: own }] of all) {
      const secret = Object.entries(environment).filter(([key]) => /KEY|PASSWORD|QUEUE/.test(key));
      for (const [key, value] of secret) {
        expect(key, name).toMatch(/_FILE$/);
        expect(value, key).toMatch(/^\/run\/secrets\//);
      }
      const words = [...Object.values(environment), ...command, ...healthcheck.test].join('\n');
      const used = [...words.matchAll(/\/run\/secrets\/([\w-]+)/g)].map(([, file]) => file);
      expect([...new Set(used)].sort(), name).toEqual(own.toSorted());
      expect(words, name).not.toMatch(/:\/\/[^/\s]*@/);
    }
    const needed = new Set(all.flatMap(([, { secrets: own }]) => own));
    expect(Object.keys(secrets).sort()).toEqual([...needed].sort());
    for (const [name, { file }] of Object.entries(secrets)) expect(file).toBe(`./secrets/${name}`);
    expect(read('.gitignore').split('\n')).toContain('secrets/');
  });

  it('runs nothing as root, nothing that can become root, and nothing that can change its own files', () => {
    for (const [name, { user, read_only, cap_drop, security_opt }] of all) {
      expect(user, name).toMatch(/^(node|redis)$/);
      expect({ read_only, cap_drop, security_opt }, name).toEqual({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
    }
  });

  it('shows the dashboard to this machine only, and nothing else to anybody', () => {
    expect(all.flatMap(([name, { ports }]) => ports.map((port) => `${name} ${port}`))).toEqual([
      'serve 127.0.0.1:7300:7300',
    ]);
    expect(ours.serve.command.join(' ')).toContain('--port 7300');
  });

  it('keeps what Redis is told, and evicts nothing', () => {
    const options = redis.command.join(' ');
    expect(options).toContain('--appendonly yes');
    expect(options).toContain('--maxmemory-policy noeviction');
    expect(options).toContain('requirepass $(cat /run/secrets/redis-password)');
    expect(redis.volumes).toEqual(['redis:/data']);
    expect(Object.keys(volumes).sort()).toEqual(['redis', 'state']);
  });

  it('gives calls in flight the time to end, under an init that forwards the signal', () => {
    for (const { init, stop_grace_period } of Object.values(ours)) {
      expect(init).toBe(true);
      expect(Number.parseInt(stop_grace_period ?? '', 10)).toBeGreaterThan(35);
    }
  });

  it('lets the emulator out only for a rehearsal, and starts several workers', () => {
    expect(all.filter(([, { profiles }]) => profiles).map(([name]) => name)).toEqual(['emulator']);
    expect(ours.work.deploy?.replicas).toBeGreaterThan(1);
    expect(ours.work.ports).toEqual([]);
  });
});

describe('the Dockerfile', () => {
  const instructions = read('Dockerfile')
    .replaceAll(/^#.*$/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [word = '', ...rest] = line.trim().split(/ +/);
      return [word, rest.join(' ')] as const;
    });
  const of = (word: string): string[] => instructions.flatMap(([name, rest]) => (name === word ? rest : []));
  const copied = of('COPY')
    .filter((rest) => !rest.startsWith('--from='))
    .map((rest) => rest.split(' ').slice(0, -1));

  it('takes a Node.js with long-term support that package.json admits, pinned by its major version', () => {
    const { engines } = JSON.parse(read('package.json'));
    // `crc32` of node:zlib came with 20.15 and 22.2.
    expect(engines.node).toBe('^20.19 || >=22.2');
    expect(of('FROM')).toEqual(['node:24-slim AS build', 'node:24-slim']);
  });

  it('ends with a user who is not root, and with the command line as its entry', () => {
    expect(of('USER')).toEqual(['node']);
    const last = instructions.slice(instructions.findIndex(([word]) => word === 'USER'));
    expect(last.map(([word]) => word)).toEqual(['USER', 'STOPSIGNAL', 'ENTRYPOINT', 'CMD']);
    expect(of('STOPSIGNAL')).toEqual(['SIGTERM']);
    expect(of('ENTRYPOINT')).toEqual(['["promptmill"]']);
  });

  it('has no secret in a layer: no argument, no variable but one, and only files that are named', () => {
    expect(of('ARG')).toEqual([]);
    expect(of('ENV')).toEqual(['NODE_ENV=production']);
    const allowed = read('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    expect(copied.flat().sort()).toEqual(allowed.sort());
    expect(read('.dockerignore')).toMatch(/^\*$/m);
  });
});

describe('docs/containers.md', () => {
  it('makes the secrets that the services need', () => {
    const folder = mkdtempSync(join(tmpdir(), 'promptmill-secrets-'));
    try {
      const script = /```sh\n(mkdir[\s\S]*?)```/.exec(read('docs/containers.md'))?.[1] ?? '';
      execFileSync('sh', ['-e'], { cwd: folder, input: script });
      const made = (name: string): string => readFileSync(join(folder, 'secrets', name), 'utf8').trim();
      for (const name of Object.keys(readCompose().secrets)) expect(typeof made(name), name).toBe('string');
      expect(made('redis-password').length).toBeGreaterThan(30);
      expect(made('queue')).toBe(`redis://:${made('redis-password')}@redis:6379`);
      expect(made('dashboard-password').length).toBeGreaterThan(16);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
