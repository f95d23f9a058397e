import type { Listed } from '../store/key-value.js';
import {
  RUN_LOST_MS,
  type RunPost,
  type RunState,
  runPostSchema,
  type WorkerPost,
  workerPostSchema,
} from './posts.js';

/** A post of a run, read, and how old it is. */
export interface SeenRun {
  readonly post: RunPost;
  /** Milliseconds since the run last said something of itself. */
  readonly ageMs: number;
}

/** A post of a worker, read, and how old it is. */
export interface SeenWorker {
  readonly post: WorkerPost;
  readonly ageMs: number;
}

/** `lost`: its process was killed, or cannot reach the store; the same command resumes it. */
export type Standing = RunState | 'lost';

export const standingOf = ({ post, ageMs }: SeenRun): Standing =>
  post.state === 'running' && ageMs > RUN_LOST_MS ? 'lost' : post.state;

/** The posts of runs among those of a board; what is none, because it was forged or is of another version, is left out (fault 85). */
export function readRuns(posts: readonly Listed[]): SeenRun[] {
  return posts.flatMap(({ name, text, ageMs }) => {
    const { data: post } = runPostSchema.safeParse(parseJson(text));
    return post?.run === name ? [{ post, ageMs }] : [];
  });
}

/** The posts of workers among those of a board; what is none is left out. */
export function readWorkers(posts: readonly Listed[]): SeenWorker[] {
  return posts.flatMap(({ name, text, ageMs }) => {
    const { data: post } = workerPostSchema.safeParse(parseJson(text));
    return post?.id === name ? [{ post, ageMs }] : [];
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
