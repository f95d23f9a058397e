import { afterAll, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

const work = new Workplace();
afterAll(() => work.remove());

it('the help of every command fits a terminal of 80 columns', async () => {
  const { stdout } = await work.call(['--help']);
  expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  const commands = [...stdout.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name = '']) => name);
  expect(commands).toEqual(expect.arrayContaining(['run', 'merge-review']));
  for (const command of commands.filter((name) => name !== 'help' && !name.startsWith('-'))) {
    const help = await work.call([command, '--help']);
    expect(help.code).toBe(0);
    expect(help.stdout).toContain(`Usage: promptmill ${command}`);
    expect(help.stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  }
});
