import { expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';

it('a quiet run that is stopped says why in one line, and nothing else', async () => {
  const work = new Workplace();
  const service = await startScriptedService(() => ({
    status: 403,
    json: { error: { code: '403', message: 'blocked for policy' } },
  }));
  try {
    const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
    const { code, stdout, stderr } = await work.call(['run', job, '--quiet'], {
      PROMPTMILL_BASE_URL: service.url,
    });
    expect(code, stderr).toBe(3);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^promptmill: .*blocked for policy.*\n$/);
  } finally {
    await service.close();
    work.remove();
  }
});
