import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type IQueueBackend,
  type JobJson,
  type JobsOptions,
  type JobType,
  type KeepJobs,
  type MinimalJob,
  Worker,
} from 'bullmq';
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { EmbeddedQueues } from '../../src/store/embedded/queue-backend.js';
import type { Store } from '../../src/store/store.js';
import { seeded } from '../support/seeded.js';

/**
 * Does the same random things to an embedded queue and to one on Redis, and compares what both say and have. Both go by one clock,
 * which is set; the server's own is put forward with it.
 *
 * Where Redis leaves an order to chance, or does what nobody wants, the things that show it are left out:
 * - Each entry has a priority of its own or none has one, and no two things happen in the same millisecond: so nothing is a tie.
 * - BullMQ on Redis forgets the priority of what stalled or was let go. So neither is done to entries with priorities. Of those that
 *   stall together it has a set, so all but one of them are removed.
 * - A scheduler that is put again while the queue is paused leaves its entry there on Redis. So none is put then.
 */
export interface Game {
  readonly store: Store;
  /** Of the server. */
  readonly url: string;
  readonly seed: number;
  readonly operations: number;
}

/** In milliseconds. The clock goes forward by tens of seconds, so none of these ends in the moment in which it is looked at. */
const LOCK_MS = 35_000;
const STALLED_MS = 15_000;
const LIMIT_MS = 25_000;
const STEP_MS = 10_000;
/** Things that are done to one pair of queues: less than a thousand, so that no two entries are due in the same millisecond. */
const ROUND = 500;
/** Things between two looks at everything. */
const LOOK_EVERY = 10;
const TOKENS = ['one', 'two', 'three'];
const TYPES: JobType[] = ['active', 'waiting', 'prioritized', 'delayed', 'completed', 'failed'];

/** @throws Error that names the seed and the last things that were done, when the two differ */
export async function play({ store, url, seed, operations }: Game): Promise<void> {
  const redis = new Redis(url);
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-same-'));
  const clock = { now: () => Date.now(), steady: () => Date.now() };
  const queues = new EmbeddedQueues(
    join(folder, 'schedulers.json'),
    () => null,
    () => {},
    clock,
  );
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  try {
    for (let done = 0, round = 0; done < operations; done += ROUND, round++) {
      const random = seeded(seed + round);
      const name = `same-${seed}-${round}`;
      const options = {
        ...{ name: 'w', lockDuration: LOCK_MS, stalledInterval: STALLED_MS, maxStalledCount: 1 },
        ...{ skipStalledCheck: true, ...(random() < 0.5 && { limiter: { max: 20, duration: LIMIT_MS } }) },
      };
      const workers = [store, { ...store, backendFactory: queues.backendFactory }].map(
        (each) => new Worker(name, null, { ...options, connection: each.connection }, each.backendFactory),
      );
      for (const worker of workers) worker.on('error', () => {});
      const [theirs, ours] = workers.map((worker): IQueueBackend => worker.getBackend());
      if (theirs === undefined || ours === undefined) throw new Error('two queues are needed');
      const hasPriorities = random() < 0.5;
      const pair = new Pair({ theirs, ours, redis, name, random, hasPriorities });
      try {
        await pair.play(Math.min(ROUND, operations - done));
      } catch (error) {
        throw new Error(`seed ${seed}, ${name}:\n${pair.history}`, { cause: error });
      } finally {
        // What is left of a round slows the next ones down.
        await theirs.pause(true);
        while ((await theirs.obliterate({ force: true, count: 1_000 })) > 0);
        for (const worker of workers) await worker.close(true);
      }
    }
  } finally {
    vi.useRealTimers();
    redis.disconnect();
    queues.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Parts {
  readonly theirs: IQueueBackend;
  readonly ours: IQueueBackend;
  readonly redis: Redis;
  readonly name: string;
  readonly random: () => number;
  readonly hasPriorities: boolean;
}

/** Two queues that should be the same. */
class Pair {
  readonly #log: string[] = [];
  /** Every id that was ever added. */
  readonly #ids: string[] = [];
  /** What workers have: id → token, and when the lock runs out. */
  readonly #held = new Map<string, { token: string; until: number }>();
  #priority = 0;
  #syncedAt = performance.now();

  constructor(private readonly parts: Parts) {}

  get history(): string {
    return this.#log.slice(-40).join('\n');
  }

  async play(operations: number): Promise<void> {
    for (let i = 1; i <= operations; i++) {
      await this.#forward(1, i % 25 === 0);
      await this.#doSomething();
      if (i % LOOK_EVERY === 0 || i === operations) await this.#look();
    }
  }

  async #doSomething(): Promise<void> {
    const { hasPriorities } = this.parts;
    const chance = this.parts.random();
    if (chance < 0.2) return this.#add(1, this.#chance(0.4) ? STEP_MS * this.#below(8) : 0);
    if (chance < 0.25) return this.#add(1 + this.#below(4), 0);
    if (chance < 0.45) return this.#take();
    if (chance < 0.57) return this.#complete();
    if (chance < 0.64) return this.#fail();
    if (chance < 0.7) return this.#delay();
    if (chance < 0.75) return this.#putBack();
    if (chance < 0.79) return this.#retry();
    if (chance < 0.83) return this.#renew();
    if (chance < 0.86 && !hasPriorities) return this.#stalled();
    if (chance < 0.87 && !hasPriorities) {
      await this.#both(
        'promoteJobs',
        (queue) => queue.promoteJobs(1_000_000),
        () => null,
      );
      return;
    }
    if (chance < 0.89) return this.#pause();
    if (chance < 0.92) return this.#limit();
    if (chance < 0.95) return this.#remove();
    if (chance < 0.97) return this.#schedule();
    return this.#forward(STEP_MS * (1 + this.#below(4)), true);
  }

  async #add(count: number, delay: number): Promise<void> {
    const entries = Array.from({ length: count }, () => {
      const isOld = this.#ids.length > 0 && this.#chance(0.15);
      const old = isOld ? this.#oneOf(this.#ids) : SCHEDULED;
      const id = old.startsWith(SCHEDULED) ? `e${this.#ids.length + 1}` : old;
      if (!this.#ids.includes(id)) this.#ids.push(id);
      const priority = this.parts.hasPriorities ? this.#newPriority() : 0;
      const opts = { jobId: id, delay, priority, attempts: 3 };
      return {
        job: { ...JOB, id, opts, timestamp: Date.now(), data: JSON.stringify({ id, delay }) },
        jobId: id,
      };
    });
    const [first] = entries;
    const shown = `add ${entries.map(({ job }) => `${job.id}/${job.opts.priority}`)} delay ${delay}`;
    if (count > 1 || first === undefined) await this.#both(shown, (queue) => queue.addJobs(entries));
    else await this.#both(shown, (queue) => queue.addJob(first.job, first.jobId));
  }

  /** Unlike all others, and in no order. */
  #newPriority(): number {
    this.#priority = (this.#priority + 7_919) % 2_000_003;
    return this.#priority + 1;
  }

  async #take(): Promise<void> {
    const token = `${this.#oneOf(TOKENS)}-${this.#log.length}`;
    await this.#taken(`take ${token}`, token, (queue) => queue.moveToActive(token, 'w'));
  }

  /** Something that may hand out the next entry. */
  async #taken(
    shown: string,
    token: string,
    ask: (queue: IQueueBackend) => Promise<unknown>,
    onDone: () => void = () => {},
  ): Promise<void> {
    const next = await this.#both(shown, ask, (reply) => {
      const tuple = isTuple(reply) ? reply : Object(reply).result;
      // Where an entry has ended and there is no other one, Redis says nothing.
      return isTuple(tuple) ? this.#nextOf(tuple) : { delayUntil: 0 };
    });
    if (!('refused' in Object(next))) onDone();
    const { id } = Object(next);
    if (typeof id === 'string') this.#held.set(id, { token, until: Date.now() + LOCK_MS });
  }

  #nextOf([json, id, limitMs, delayUntil]: Tuple): object {
    if (isJson(json)) return { id, json: comparable(json) };
    // Redis keeps the time that is left by its own clock.
    if (Number(limitMs) > 0) return { isLimited: true };
    return { delayUntil: this.#isPaused ? 0 : Math.floor(Number(delayUntil)) };
  }
  #isPaused = false;

  async #complete(): Promise<void> {
    const held = this.#pick();
    if (held === null) return;
    const keep = this.#oneOf([true, true, false, 2, { count: 3, age: 30 }]);
    await this.#taken(
      `complete ${held.id} ${held.token} keep ${JSON.stringify(keep)} ${held.fetchNext}`,
      held.token,
      (queue) => queue.moveToCompleted(jobOf(held.id), { ok: 1 }, keep, held.token, held.fetchNext),
      () => this.#held.delete(held.id),
    );
  }

  async #fail(): Promise<void> {
    const held = this.#pick();
    if (held === null) return;
    const keep: boolean | KeepJobs = this.#oneOf([true, false, { age: 24 * 3600, count: 3 }]);
    const fields = { failedReason: 'why', stacktrace: '["at"]' };
    await this.#taken(
      `fail ${held.id} ${held.token} keep ${JSON.stringify(keep)} ${held.fetchNext}`,
      held.token,
      (queue) => queue.moveToFailed(jobOf(held.id), 'why', keep, held.token, held.fetchNext, fields),
      () => this.#held.delete(held.id),
    );
  }

  async #delay(): Promise<void> {
    const held = this.#pick();
    if (held === null) return;
    const { id, token, fetchNext } = held;
    const delay = STEP_MS * this.#below(6) + (this.#chance(0.1) ? 0 : 1_000);
    const skipAttempt = this.#chance(0.5);
    const fields = this.#chance(0.5) ? { fieldsToUpdate: { failedReason: 'later', stacktrace: '[]' } } : {};
    await this.#taken(
      `delay ${id} ${token} ${delay} ${skipAttempt} ${fetchNext}`,
      token,
      (queue) => queue.moveToDelayed(id, Date.now(), delay, token, { skipAttempt, fetchNext, ...fields }),
      () => this.#held.delete(id),
    );
  }

  async #putBack(): Promise<void> {
    const held = this.#pick();
    if (held === null) return;
    const back = await this.#both(
      `put back ${held.id} ${held.token}`,
      (queue) => queue.moveJobFromActiveToWait(held.id, held.token),
      (ms) => ({ isLimited: Number(ms) > 0 }),
    );
    if (!('refused' in Object(back))) this.#held.delete(held.id);
  }

  async #retry(): Promise<void> {
    const held = this.#pick();
    if (held === null) return;
    const fields = { fieldsToUpdate: { failedReason: 'again', stacktrace: '[]' } };
    const back = await this.#both(`retry ${held.id} ${held.token}`, async (queue) => {
      await queue.retryJob(held.id, false, held.token, fields);
    });
    if (!('refused' in Object(back))) this.#held.delete(held.id);
  }

  async #renew(): Promise<void> {
    const ids = this.#ids.filter((id) => !this.#isLost(id) && this.#chance(0.3)).slice(-6);
    if (ids.length === 0) return;
    const tokens = ids.map((id) => (this.#chance(0.1) ? 'wrong' : (this.#held.get(id)?.token ?? 'none')));
    const lost = await this.#both(
      `renew ${ids} ${tokens}`,
      (queue) => queue.extendLocks(ids, tokens, LOCK_MS),
      (lost) => [...(lost ?? [])].sort(),
    );
    for (const id of ids) {
      const held = this.#held.get(id);
      if (held !== undefined && Array.isArray(lost) && !lost.includes(id)) held.until = Date.now() + LOCK_MS;
    }
  }

  async #stalled(): Promise<void> {
    const ids = await this.#both(
      'stalled',
      (queue) => queue.moveStalledJobsToWait(),
      (ids) => [...(ids ?? [])].sort(),
    );
    if (!Array.isArray(ids)) return;
    for (const id of ids) this.#held.delete(id);
    for (const id of ids.slice(1)) {
      const [, scheduler] = id.split(':');
      // The next entry of a scheduler cannot be removed.
      if (scheduler !== undefined) {
        await this.#both(`unschedule ${scheduler}`, (queue) => queue.removeJobScheduler(scheduler));
      }
      await this.#both(`remove ${id}`, (queue) => queue.remove(id, false));
    }
  }

  async #pause(): Promise<void> {
    this.#isPaused = this.#chance(0.3);
    await this.#both(`pause ${this.#isPaused}`, (queue) => queue.pause(this.#isPaused));
    await this.#both('is paused', (queue) => queue.hasQueueMetaField('paused'));
  }

  async #limit(): Promise<void> {
    if (this.#chance(0.5)) await this.#both('limit', (queue) => queue.setRateLimit(LIMIT_MS));
    else
      await this.#both(
        'unlimit',
        (queue) => queue.removeRateLimitKey(),
        () => null,
      );
    await this.#both(
      'limited',
      (queue) => queue.getRateLimitTtl(20),
      (ms) => Number(ms) > 0,
    );
  }

  async #remove(): Promise<void> {
    if (this.#ids.length === 0) return;
    const id = this.#oneOf(this.#ids);
    const state = await this.parts.ours.getState(id);
    // Redis takes what is not there for removed.
    if (state === 'unknown') return;
    await this.#both(`remove ${id}`, (queue) => queue.remove(id, false));
  }

  /** Puts, advances or removes a scheduler. */
  async #schedule(): Promise<void> {
    const name = this.#oneOf(['s1', 's2']);
    const next = Date.now() + STEP_MS * (1 + this.#below(5));
    const id = `${SCHEDULED}${name}:${next}`;
    const pattern = `0 ${next % 60} * * * *`;
    const times = { delay: next - Date.now(), timestamp: Date.now(), prevMillis: next, repeatJobKey: name };
    const opts = { removeOnComplete: true, jobId: id, ...times, repeat: { pattern, count: 1 } };
    const taken = [...this.#held.keys()].filter((held) => held.startsWith(`${SCHEDULED}${name}:`));
    if (taken.length > 0 && this.#chance(0.7)) {
      const producer = this.#oneOf(taken);
      await this.#both(
        `advance ${name} to ${next} by ${producer}`,
        (queue) => queue.updateJobSchedulerNextMillis(name, next, '{"a":1}', opts, producer),
        (made) => made ?? null,
      );
    } else if (this.#chance(0.2)) {
      await this.#both(`unschedule ${name}`, (queue) => queue.removeJobScheduler(name));
    } else if (!this.#isPaused) {
      const template = { removeOnComplete: true };
      const wanted = { name: 'tick', pattern, tz: 'UTC' };
      await this.#both(
        `schedule ${name} at ${next}`,
        (queue) => queue.addJobScheduler(name, next, '{"a":1}', template, wanted, opts),
        (made) => made?.map(String),
      );
    }
    if ((await this.parts.ours.getState(id)) !== 'unknown') this.#ids.push(id);
    await this.#both('schedulers', (queue) => queue.getJobSchedulersRange(0, -1, true));
    await this.#both(
      `scheduler ${name}`,
      (queue) => queue.getJobSchedulerData(name),
      (fields) => {
        const { name, pattern, tz, ic, data, opts } = fields ?? {};
        return { name, pattern, tz, ic, data, opts };
      },
    );
  }

  /** An entry that a worker has, or another one, and a token that need not be that of the worker. */
  #pick(): { id: string; token: string; fetchNext: boolean } | null {
    const all = [...this.#held.keys()];
    const id = this.#chance(0.95) || this.#ids.length === 0 ? this.#oneOf(all) : this.#oneOf(this.#ids);
    if (id === undefined) return null;
    const token = this.#held.get(id)?.token;
    const isRight = token !== undefined && this.#chance(0.95);
    return { id, token: isRight ? token : 'wrong', fetchNext: this.#chance(0.5) };
  }

  #isLost(id: string): boolean {
    const held = this.#held.get(id);
    return held !== undefined && held.until <= Date.now();
  }

  async #forward(ms: number, syncs: boolean): Promise<void> {
    vi.setSystemTime(Date.now() + ms);
    if (ms > 1) this.#log.push(`${ms} ms later`);
    const { redis, name } = this.parts;
    // What has passed on Redis was in the clock already. On a busy machine it could end locks before their time.
    const passed = performance.now() - this.#syncedAt;
    if (!syncs && passed < 1_000) return;
    this.#syncedAt = performance.now();
    await redis.eval(FORWARD, 0, `bull:${name}:*`, Math.round(ms - passed));
  }

  /** Compares all that the two have. At once: nobody changes anything meanwhile. */
  async #look(): Promise<void> {
    const looks = [
      this.#both('range', (queue) => queue.getRanges(['wait', 'prioritized'], 1, 3, true)),
      this.#both('range', (queue) => queue.getRanges(['wait', 'prioritized'], 0, 2, false)),
      this.#both('counts', (queue) => queue.getCounts(TYPES)),
      this.#both('first to last', (queue) => queue.getRanges(SORTED, 0, -1, true)),
      this.#both('last to first', (queue) => queue.getRanges(SORTED, 0, -1, false)),
    ];
    for (const id of new Set(Array.from({ length: 5 }, () => this.#oneOf(this.#ids)))) {
      if (id === undefined) continue;
      looks.push(
        this.#both(`state ${id}`, (queue) => queue.getState(id)),
        this.#both(
          `entry ${id}`,
          (queue) => queue.getJobData(id),
          (json) => (isJson(json) ? comparable(json) : null),
        ),
      );
    }
    await Promise.all(looks);
  }

  /** @returns what both say, as it is compared */
  async #both<Reply>(
    shown: string,
    ask: (queue: IQueueBackend) => Promise<Reply>,
    normal: (reply: Reply | undefined) => unknown = (reply) => reply,
  ): Promise<unknown> {
    const { theirs, ours } = this.parts;
    const replies = [];
    for (const queue of [theirs, ours]) {
      replies.push(
        await ask(queue).then(normal, (error: unknown) => {
          const code = Number(Object(error).code);
          if (!(code < 0)) throw error;
          return { refused: code };
        }),
      );
    }
    const [their, our] = replies.map((reply) => JSON.stringify(reply) ?? 'undefined');
    this.#log.push(`${shown} → ${our}`);
    if (their !== our) throw new Error(`${shown}\nredis: ${their}\nembedded: ${our}`);
    return replies[1];
  }

  #chance = (chance: number): boolean => this.parts.random() < chance;
  #below = (most: number): number => Math.floor(this.parts.random() * most);
  // biome-ignore lint/style/noNonNullAssertion: of an empty list the caller expects undefined
  #oneOf = <T>(all: readonly T[]): T => all[this.#below(all.length)]!;
}

const SORTED: JobType[] = ['wait', 'prioritized', 'delayed', 'completed', 'failed'];

/** Puts Redis's own clock forward for the keys that run out: locks, the limiter, and the mark of the look for stalled entries. */
const FORWARD = `
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left > 0 then
    left = left - tonumber(ARGV[2])
    if left > 0 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
  end
end`;

/** How the ids of the entries of schedulers begin. */
const SCHEDULED = 'repeat:';

const JOB = {
  ...{ name: 'chunk', progress: 0, attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 },
  ...{ stacktrace: '[]', failedReason: '', returnvalue: '' },
} satisfies Partial<JobJson>;

/** What the backends look at of a job that is worked on. */
const jobOf = (id: string): MinimalJob =>
  ({ id, opts: { attempts: 3 } satisfies JobsOptions }) as unknown as MinimalJob;

type Tuple = readonly [json: unknown, id: unknown, limitMs: unknown, delayUntil: unknown];
const isTuple = (reply: unknown): reply is Tuple => Array.isArray(reply) && reply.length === 4;
const isJson = (json: unknown): json is JobJson => typeof json === 'object' && json !== null;

/** What BullMQ makes a job of, without the fields that it makes the same of. */
function comparable(json: JobJson): object {
  const { name, data, attemptsMade, attemptsStarted, stalledCounter, processedOn, finishedOn, processedBy } =
    json;
  const { priority, delay, timestamp, deferredFailure = '', failedReason, stacktrace, opts } = json;
  return {
    ...{ name, data: JSON.parse(data), attemptsMade, attemptsStarted: attemptsStarted ?? 0 },
    ...{ stalledCounter: stalledCounter ?? 0, processedOn: processedOn ?? 0, finishedOn: finishedOn ?? 0 },
    ...{ processedBy: processedBy ?? '', priority, delay, timestamp, deferredFailure },
    ...{ failedReason: failedReason ?? '', stacktrace: stacktrace ?? '[]', attempts: opts.attempts },
  };
}
