import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { readJobFile } from '../../../src/config/job-file.js';
import { Workplace } from '../../support/promptmill.js';

const page = readFileSync('docs/scheduling.md', 'utf8');
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, text = '']) => text);

it('the job of docs/scheduling.md is a job with a schedule and what follows a run', () => {
  const work = new Workplace();
  try {
    const [yaml = '', ...others] = blocks('yaml');
    expect(others).toEqual([]);
    work.write('nightly.yaml', yaml);
    const job = readJobFile(work.path('nightly.yaml'));
    expect(job.schedule).toEqual({ cron: '0 2 * * *', timezone: 'Europe/Berlin' });
    expect(job.onFinish).toEqual({
      command: ['./tell-the-team.sh', 'nightly'],
      post: 'TOPICS_HOOK_URL',
      timeout: '60s',
    });
  } finally {
    work.remove();
  }
});

it('the units and the crontab of docs/scheduling.md call commands and options that there are', async () => {
  const lines = [...blocks('ini'), ...blocks('cron')].join('\n').split('\n');
  const calls = lines.flatMap((line) => /promptmill ((?:run|serve)\b[^>|]*)/.exec(line)?.[1]?.trim() ?? []);
  expect(calls).toEqual([
    'serve',
    'run jobs/nightly.yaml --quiet --overwrite',
    'run jobs/nightly.yaml --quiet --overwrite',
  ]);
  const { runCommand } = await import('../../../src/commands/run.js');
  const { UnderWay } = await import('../../../src/commands/exit-message.js');
  const known = runCommand(() => {}, new UnderWay()).options.map(({ long }) => long);
  expect(known).toEqual(expect.arrayContaining(['--quiet', '--overwrite']));
});
