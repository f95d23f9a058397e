import type { StoredSummary } from '../../src/account/summary.js';
import { extendOutput } from '../../src/amend/extend.js';
import { runAndRetry } from '../../src/amend/run-and-retry.js';
import type { SelectionFlags } from '../../src/amend/selection.js';
import { exitMessage, UnderWay } from '../../src/commands/exit-message.js';
import { readEnvironment } from '../../src/config/environment.js';
import { readJobFile } from '../../src/config/job-file.js';
import type { RunFlags } from '../../src/config/settings.js';
import { Halt } from '../../src/core/halt.js';
import { openedJob } from '../../src/library/opened-job.js';
import { retryOf } from '../../src/library/output-job.js';
import { summaryDocument } from '../../src/render/run-document.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { runJob } from '../../src/run/pipeline.js';
import { ENVIRONMENT, MemoryMachine, type MemoryOptions, type MemoryRun } from './memory-run.js';
import { Workplace } from './promptmill.js';
import type { Script } from './scripted-service.js';

/** How a command ended, or what would have been one. */
interface Done {
  /** Exit code. */
  readonly code: number;
  /** What it said, and the message of what ended it. */
  readonly said: string;
  /** Null where it did not start. */
  readonly summary: StoredSummary | null;
  /** The summary as the screen has it, without a line's end in a sentence; empty where there is none. */
  readonly shown: string;
}

type Flags = RunFlags & { readonly retryFailed?: boolean };
type RetryFlags = SelectionFlags & Pick<RunFlags, 'input' | 'restart'> & { readonly job?: string };
type How = Pick<MemoryOptions, 'work' | 'halt'>;

/**
 * A folder whose jobs run in memory, with the output on the disk: for what is done with files that are there, and with
 * finished outputs. A run does what the command of its name does, but for the screen and the hooks.
 */
export class MemoryPlace {
  readonly work = new Workplace();
  readonly machine = new MemoryMachine((request) => this.script(request));
  /** What the service answers; a test may replace it at any time. */
  script: Script = () => ({});

  run(job: string, { retryFailed = false, ...flags }: Flags = {}, halt = new Halt()): Promise<Done> {
    const work = flags.extend ? extendOutput : retryFailed ? runAndRetry : runJob;
    return this.#done((underWay) => this.#begun(job, flags, { work, halt }, underWay));
  }

  retry(output: string, options: RetryFlags = {}): Promise<Done> {
    return this.#done((underWay) => {
      const { job, input, flags, work } = retryOf(output, options, options);
      return this.#begun(job, { ...options, input, ...flags }, { work }, underWay);
    });
  }

  #begun(job: string, flags: RunFlags, how: How, underWay: UnderWay): Promise<MemoryRun> {
    const environment = readEnvironment({ ...ENVIRONMENT, PROMPTMILL_STATE_DIR: '.promptmill' }, null);
    const opened = openedJob(readJobFile(job, environment, flags.set ?? []), environment, flags);
    return this.machine.begin(opened, { ...how, onBegun: async () => underWay.begin('Resume.') });
  }

  /** Names in jobs and flags are those of files in the folder. */
  async #done(run: (underWay: UnderWay) => Promise<MemoryRun>): Promise<Done> {
    const before = process.cwd();
    process.chdir(this.work.folder);
    const underWay = new UnderWay();
    try {
      const { code, result, said } = await run(underWay);
      return {
        code: result.retried === 0 ? 0 : code,
        said: said.join('\n'),
        summary: result.summary,
        shown: shownAs(result),
      };
    } catch (error) {
      const { text, exit } = exitMessage(error, underWay.resume);
      return { code: exit, said: text, summary: null, shown: '' };
    } finally {
      process.chdir(before);
    }
  }
}

const shownAs = ({ summary, kept }: MemoryRun['result']): string =>
  renderTerminal(summaryDocument(summary, { files: [], resume: null, examples: {}, kept }), {
    width: 1000,
    color: false,
  });
