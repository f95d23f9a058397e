import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Takes the pictures of docs/first-job.md, and that of the README, as text: the real command line in a terminal of 80 × 24 (tmux; 28 lines at the
 * end), against the emulator with a seed, a quota and a short outage. Each frame goes between its marks, `<!-- cast:run -->` and
 * `<!-- /cast:run -->`. Takes about a minute and a half.
 *
 *   npm run cast
 */
const root = join(import.meta.dirname, '..');
const page = join(root, 'docs/first-job.md');
const readme = join(root, 'README.md');
const folder = mkdtempSync(join(tmpdir(), 'promptmill-cast-'));
const server = `promptmill-cast-${process.pid}`;
/** Longest wait for what a frame shows, in milliseconds. */
const PATIENCE_MS = 300_000;

const tmux = (...args: readonly string[]): string =>
  execFileSync('tmux', ['-L', server, '-f', '/dev/null', ...args], { encoding: 'utf8' });
const type = (...keys: readonly string[]): string => tmux('send-keys', ...keys);
const command = (line: string): string => type(`clear; ${line}`, 'Enter');
const screen = (): string => tmux('capture-pane', '-p').trimEnd();

/** Waits until the terminal shows something. */
async function shows(pattern: RegExp): Promise<string> {
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await sleep(50)) {
    const text = screen();
    if (pattern.test(text)) return text;
  }
  throw new Error(`the terminal does not show ${pattern}, but:\n${screen()}`);
}

/** What a command leaves, when the shell asks for the next one. */
const ended = (pattern: RegExp): Promise<string> => shows(new RegExp(`${pattern.source}[\\s\\S]*\\n\\$$`));

const emulator = spawn(
  process.execPath,
  [
    join(root, 'dist/cli.js'),
    ...['emulate', '--port', '0', '--seed', '3', '--latency', '120', '--latency-per-token', '3'],
    ...['--requests-per-minute', '6000', '--filter-prompt-rate', '0.006', '--script', outage()],
  ],
  {
    env: { PATH: process.env['PATH'], PROMPTMILL_API_KEY: 'for-pictures-only' },
    stdio: ['ignore', 'ignore', 'pipe'],
  },
);
try {
  const url = await addressOf(emulator);
  prepare();
  const environment = [
    ...['-i', `PATH=${join(folder, 'bin')}:${process.env['PATH']}`, `HOME=${folder}`, 'LANG=C.UTF-8'],
    ...['TERM=tmux-256color', 'PS1=$ ', `PROMPTMILL_BASE_URL=${url}`, 'PROMPTMILL_API_KEY=for-pictures-only'],
  ];
  const shell = ['env', ...environment, 'bash', '--norc', '--noprofile'];
  tmux('new-session', '-d', '-x', '80', '-y', '24', '-c', folder, ...shell, ';', 'set', 'status', 'off');
  const frames: Record<string, string> = {};

  await shows(/\$$/);
  command('promptmill init samples/reviews.csv');
  for (const [question, answer] of [
    [/2\/5[\s\S]*>$/, ''],
    [/3\/5[\s\S]*>$/, 'Classify the sentiment of the review.'],
    [/4\/5[\s\S]*>$/, 'positive, negative, neutral'],
    [/5\/5[\s\S]*>$/, ''],
  ] as const) {
    await shows(question);
    type(answer, 'Enter');
  }
  frames['init'] = await ended(/What comes next/);

  command('promptmill check jobs/reviews.yaml');
  frames['check'] = await ended(/first prompt/);

  const run = 'promptmill run jobs/year.yaml';
  command(run);
  frames['run'] = await shows(/^known .* (1[5-9]|2\d) %/m);
  frames['outage'] = await shows(/^waits +since/m);
  await shows(/^known .* 6\d %/m);
  tmux('resize-window', '-x', '40', '-y', '24');
  frames['narrow'] = await shows(/^known {4}\d+ %/m);
  tmux('resize-window', '-x', '80', '-y', '24');
  type('C-c');
  frames['stopped'] = await ended(/state +out/);

  // What it says at its start has room above the summary.
  tmux('resize-window', '-x', '80', '-y', '28');
  command(run);
  frames['end'] = await ended(/files +output/);

  for (const path of [page, readme]) {
    const before = readFileSync(path, 'utf8');
    const shown = Object.entries(frames).filter(([name]) => path === page || before.includes(marked(name)));
    writeFileSync(path, shown.reduce(put, before));
  }
} finally {
  try {
    tmux('kill-server');
  } catch {
    // It never came up.
  }
  emulator.kill();
  if (emulator.exitCode === null) await once(emulator, 'exit');
  rmSync(folder, { recursive: true, force: true });
}

function marked(name: string): string {
  return `<!-- cast:${name} -->`;
}

function put(text: string, [name, frame]: readonly [string, string]): string {
  const marks = new RegExp(`(${marked(name)}\\n)[\\s\\S]*?(<!-- /cast:${name} -->)`);
  if (!marks.test(text)) throw new Error(`${page} has no place for the frame ${name}`);
  return text.replace(marks, (_, begin, end) => `${begin}\`\`\`text\n${frame}\n\`\`\`\n${end}`);
}

/** The calls in flight fail, and the first that try whether the service is back. */
function outage(): string {
  const path = join(folder, 'outage.yaml');
  writeFileSync(path, '[{from: 400, to: 427, fault: 503}]\n');
  return path;
}

/** A folder as a user has it, with a year of reviews. */
function prepare(): void {
  cpSync(join(root, 'samples'), join(folder, 'samples'), { recursive: true });
  mkdirSync(join(folder, 'jobs'));
  mkdirSync(join(folder, 'bin'));
  const shim = join(folder, 'bin/promptmill');
  writeFileSync(shim, `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli.js')} "$@"\n`);
  chmodSync(shim, 0o755);
  const [header = '', ...lines] = readFileSync(join(root, 'samples/reviews.csv'), 'utf8')
    .trimEnd()
    .split('\n');
  // Records that go over several lines are left out, so that each line is one.
  const records = lines.filter((line) => /^R\d+,/.test(line) && (line.match(/"/g) ?? []).length % 2 === 0);
  const rows = Array.from({ length: 1_400 }, (_, i) => records[i % records.length]);
  writeFileSync(join(folder, 'samples/year.csv'), `${header}\n${rows.join('\n')}\n`);
  const job = readFileSync(join(root, 'jobs/sentiment.yaml'), 'utf8')
    .replace('samples/reviews.csv', 'samples/year.csv')
    .replace('out/reviews.csv', 'out/year.csv')
    .replace('name: review-sentiment', 'name: year')
    // Their figures would fill the terminal.
    .replace(/^ {2}(gold|confidence|abstain_below):.*\n/gm, '')
    // The outage is as many calls longer than those in flight.
    .replace('concurrency: auto', 'concurrency: 20')
    .replace(/^limits:$/m, 'limits:\n  budget: { cost: 0.5 }');
  writeFileSync(join(folder, 'jobs/year.yaml'), job);
}

async function addressOf({ stderr }: ChildProcess): Promise<string> {
  if (stderr === null) throw new Error('the emulator has no standard error');
  for await (const line of createInterface({ input: stderr })) {
    const url = /PROMPTMILL_BASE_URL=(\S+)/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error('the emulator ended without its address');
}
