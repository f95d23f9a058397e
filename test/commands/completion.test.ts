import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

const work = new Workplace();
const scripts: Record<string, string> = {};
beforeAll(async () => {
  work.write('jobs/a.yaml', '');
  work.write('jobs/notes.txt', '');
  work.write('my reviews.csv', '');
  for (const shell of ['bash', 'zsh', 'fish']) {
    scripts[shell] = (await work.call(['completion', shell])).stdout;
    work.write(`script.${shell}`, scripts[shell]);
  }
});
afterAll(() => work.remove());

/** Every command and option that the help shows. */
async function everything(): Promise<Map<string, string[]>> {
  const { stdout } = await work.call(['--help']);
  const commands = [...(stdout.split('Commands:')[1]?.matchAll(/^ {2}([a-z-]+)/gm) ?? [])].map(
    ([, name = '']) => name,
  );
  const options = new Map<string, string[]>();
  for (const command of commands.filter((name) => name !== 'help')) {
    const help = await work.call([command, '--help']);
    options.set(
      command,
      [...help.stdout.matchAll(/^ {2}(?:-\w, )?--([a-z-]+)/gm)].map(([, name = '']) => name),
    );
  }
  return options;
}

/** Loud, because a script that its shell cannot read would be found by users only. */
function has(shell: string): boolean {
  if (spawnSync(shell, ['-c', 'true']).status === 0) return true;
  process.stderr.write(`\n*** ${shell} is not installed: its completion was not run ***\n`);
  return false;
}

describe('promptmill completion', () => {
  it('has every command and option in each script', async () => {
    const options = await everything();
    expect(options.get('run')).toContain('concurrency');
    for (const [command, names] of options) {
      for (const [shell, text] of Object.entries(scripts)) {
        expect(text, `${command} for ${shell}`).toMatch(new RegExp(`\\b${command}\\b`));
        expect(
          names.filter((name) => !text.includes(`\t--${name}\t`)),
          `${command} for ${shell}`,
        ).toEqual([]);
      }
    }
  });

  it('refuses a shell that it does not know', async () => {
    const { code, stderr } = await work.call(['completion', 'tcsh']);
    expect(code).toBe(2);
    expect(stderr).toContain('Allowed choices are bash, zsh, fish');
  });

  const cases: readonly (readonly [words: string, found: readonly string[]])[] = [
    ['promptmill chec', ['check']],
    ['promptmill run --inp', ['--input']],
    ['promptmill run j', ['jobs']],
    ['promptmill run jobs/', ['jobs/a.yaml']],
    ['promptmill check --quiet jobs/', ['jobs/a.yaml']],
    ['promptmill run jobs/a.yaml --input my', ['my reviews.csv']],
    ['promptmill run jobs/a.yaml --limit ', []],
    ['promptmill schedule s', ['sync']],
    ['promptmill schedule sync --qu', ['--queue']],
    ['promptmill completion z', ['zsh']],
    ['promptmill help sch', ['schedule']],
    ['promptmill schedule sync jobs/', ['jobs/a.yaml']],
    ['promptmill report my', ['my reviews.csv']],
    ['promptmill status --', ['--queue', '--json', '--watch', '--help']],
    // bash takes --input=my for three words.
    ['promptmill run --input = my', ['my reviews.csv']],
  ];

  it.skipIf(!has('bash'))('in bash, commands, options, values and files are completed', () => {
    // One bash for all: a process costs the suite more than what it does.
    const complete = ([words]: (typeof cases)[number]) =>
      `COMP_WORDS=(${words.replace(/ $/, " ''")}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=()
      _promptmill; printf '%s\\n' "\${COMPREPLY[@]}" --`;
    const script = `source script.bash; ${cases.map(complete).join('\n')}`;
    const { stdout, stderr } = spawnSync('bash', ['-c', script], { cwd: work.folder, encoding: 'utf8' });
    expect(stderr).toBe('');
    const found = stdout.split('--\n').map((lines) => lines.split('\n').filter(Boolean));
    expect(cases.map(([words], i) => [words, found[i]])).toEqual(cases);
  });

  it.skipIf(!has('zsh'))('zsh can read its script', () => {
    expect(spawnSync('zsh', ['-n', work.path('script.zsh')], { encoding: 'utf8' }).stderr).toBe('');
  });

  // fish lists other files behind the job files, writes folders as jobs/, and keeps --input=my one word.
  const inFish = cases.filter(([words]) => !/(j|jobs\/)$| = /.test(words));
  it.skipIf(!has('fish'))('in fish, commands, options, values and files are completed', () => {
    const complete = ([words]: (typeof cases)[number]) => `complete -C '${words}' | cut -f 1; echo ~~`;
    const script = `source script.fish; ${inFish.map(complete).join('\n')}`;
    const { stdout, stderr } = spawnSync('fish', ['-c', script], { cwd: work.folder, encoding: 'utf8' });
    expect(stderr).toBe('');
    const found = stdout.split('~~\n').map((lines) => lines.split('\n').filter(Boolean));
    expect(inFish.map(([words], i) => [words, found[i]])).toEqual(inFish);
  });
});

it('run --dry-run does what check does, and says so', async () => {
  const job = work.job({ input: { path: work.rows(3) } });
  const { code, stdout, stderr } = await work.call([
    'run',
    job,
    '--dry-run',
    '--json',
    '--output',
    'out.csv',
  ]);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('--dry-run is promptmill check: nothing is sent');
  expect(JSON.parse(stdout).rows).toMatchObject({ to_send: 3 });
});
