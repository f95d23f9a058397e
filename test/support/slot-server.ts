import type { Script, ScriptedReply } from './scripted-service.js';

/** A server that answers so many calls at once; the others wait in its line, the first to come first. */
export interface SlotServerOptions {
  readonly slots: number;
  /** Milliseconds for which a call has its slot. */
  readonly ms: number;
  /** Whether it goes on with a call whose caller hung up, as some builds do. @default false */
  readonly worksOnCutCalls?: boolean;
  /** Tokens that all slots have together: where the calls under way outgrow it, all of them fail. @default no bound */
  readonly context?: number;
  /** Tokens of a call. @default none */
  readonly tokensOf?: (prompt: string) => number;
}

export interface SlotServer {
  readonly script: Script;
  /** Calls so far: all, those whose caller hung up, and those that outgrew the context. */
  readonly counts: { calls: number; cut: number; exceeded: number };
  /** For each call, how many its caller had under way when it came, this one included. */
  readonly underWay: readonly number[];
}

interface Waiting {
  readonly prompt: string;
  readonly tokens: number;
  readonly end: (reply: ScriptedReply) => void;
  timer: NodeJS.Timeout | null;
}

/** What llama.cpp's own server says when the calls under way outgrow the context that its slots share. */
export const EXCEEDED: ScriptedReply = {
  status: 500,
  json: { error: { code: 500, message: 'Context size has been exceeded.', type: 'server_error' } },
};

export function slotServer(options: SlotServerOptions): SlotServer {
  const { slots, ms, worksOnCutCalls = false, context = Number.POSITIVE_INFINITY, tokensOf } = options;
  const line: Waiting[] = [];
  const active = new Set<Waiting>();
  const counts = { calls: 0, cut: 0, exceeded: 0 };
  const underWay: number[] = [];
  let ended = 0;

  const leave = (call: Waiting): void => {
    if (call.timer !== null) clearTimeout(call.timer);
    const at = line.indexOf(call);
    if (at >= 0) line.splice(at, 1);
    active.delete(call);
  };
  const take = (): void => {
    while (active.size < slots) {
      const next = line.shift();
      if (next === undefined) return;
      active.add(next);
      if ([...active].reduce((sum, { tokens }) => sum + tokens, 0) > context) {
        for (const call of [...active]) {
          counts.exceeded++;
          leave(call);
          call.end(EXCEEDED);
        }
        continue;
      }
      next.timer = setTimeout(() => {
        leave(next);
        const prompt_tokens = Math.max(1, next.tokens);
        next.end({ answer: { text: ` re ${next.prompt.split(' ')[0]}`, prompt_tokens } });
        take();
      }, ms);
    }
  };

  return {
    counts,
    underWay,
    script: ({ prompt, left }) =>
      new Promise((resolve) => {
        underWay.push(++counts.calls - ended);
        let isOver = false;
        const over = (): void => {
          if (!isOver) ended++;
          isOver = true;
        };
        const end = (reply: ScriptedReply): void => {
          over();
          resolve(reply);
        };
        const call: Waiting = { prompt, tokens: tokensOf?.(prompt) ?? 0, end, timer: null };
        left.addEventListener('abort', () => {
          counts.cut++;
          over();
          if (worksOnCutCalls) return;
          leave(call);
          end('hang');
          take();
        });
        line.push(call);
        take();
      }),
  };
}
