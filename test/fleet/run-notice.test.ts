import { pino } from 'pino';
import { expect, it } from 'vitest';
import { RunNotice } from '../../src/fleet/run-notice.js';
import type { CallCounts } from '../../src/model.js';
import { settingsFor } from '../resume/run-files.js';
import { runPost } from './samples.js';

const RUN = '20261121-020000-4f9c1a';

it('what a run posts of its calls never falls, over a kill and a resume either', async () => {
  const posts: CallCounts[] = [];
  let hanging = '';
  const keyValue = {
    put: async (_folder: string, _name: string, text: string) => {
      hanging = text;
      posts.push(JSON.parse(text).summary.calls);
    },
    list: async () => (hanging === '' ? [] : [{ name: RUN, text: hanging, ageMs: 10 }]),
    remove: async () => {},
  };
  /** One process of the run, which counts so many calls sent at its beginning and at its end. */
  async function live(first: number, last: number): Promise<void> {
    let sent = first;
    const notice = new RunNotice(
      {
        keyValue,
        log: pino({ level: 'silent' }),
        settings: settingsFor('out.csv'),
        run: RUN,
        queue: 'q',
        summary: () => {
          const { summary } = runPost({ run: RUN });
          return { ...summary, calls: { ...summary.calls, sent, repeated: 0 } };
        },
        latency: () => null,
      },
      0,
    );
    await notice.begin();
    sent = last;
    await notice.end('interrupted');
  }

  await live(10, 9);
  await live(7, 30);
  expect(posts.map(({ sent }) => sent)).toEqual([10, 10, 10, 30]);
});
