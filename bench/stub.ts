import { createServer, type Socket } from 'node:net';

/**
 * An endpoint that answers with the same body, of the operation that is called, in a process of its own. It reads just enough HTTP/1.1 to find
 * the end of a request, so that it costs less than any client under test. Prints its port on standard output.
 * GET /begin/200 forgets the calls so far and answers after 200 ms from now on; GET /stats tells of the calls since
 * (`EndpointStats`).
 */
let latencyMs = Number(process.argv[2] ?? 0);
/** When each call came, in milliseconds since the epoch. */
let calls: number[] = [];
const body = (object: string, model: string, said: object): string =>
  JSON.stringify({
    id: 'cmpl-bench',
    object,
    created: 1_700_000_000,
    model,
    prompt_filter_results: [{ prompt_index: 0, content_filter_results: safe() }],
    choices: [{ ...said, index: 0, finish_reason: 'stop', logprobs: null, content_filter_results: safe() }],
    usage: { prompt_tokens: 60, completion_tokens: 1, total_tokens: 61 },
  });
const GET = Buffer.from('GET ');
const response = (text: string): Buffer =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
const completion = response(body('text_completion', 'lm-35-turbo-instruct', { text: ' positive' }));
const message = { role: 'assistant', content: 'positive', refusal: null };
const answer = response(body('chat.completion', 'lm-35-turbo', { message }));

/** What GET /stats tells. The middle is from the first tenth of the calls to the last. */
export interface EndpointStats {
  readonly calls: number;
  readonly first_ms: number;
  readonly last_ms: number;
  readonly middle: { readonly calls: number; readonly ms: number };
}

function stats(): EndpointStats {
  const at = (share: number): number => Math.floor(share * (calls.length - 1));
  const time = (index: number): number => calls[index] ?? 0;
  const [from, to] = [at(0.1), at(0.9)];
  return {
    calls: calls.length,
    first_ms: time(0),
    last_ms: time(calls.length - 1),
    middle: { calls: to - from, ms: time(to) - time(from) },
  };
}

/** Answers a GET of this head. */
function told(head: string): Buffer {
  const begin = /^GET \/begin\/(\d+)/.exec(head)?.[1];
  if (begin !== undefined) {
    latencyMs = Number(begin);
    calls = [];
  }
  return response(JSON.stringify(stats()));
}

const now = (): number => performance.timeOrigin + performance.now();

function safe() {
  const verdict = { filtered: false, severity: 'safe' };
  return { hate: verdict, self_harm: verdict, sexual: verdict, violence: verdict };
}

function serve(socket: Socket): void {
  let pending: Buffer = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (data: Buffer) => {
    pending = pending.length === 0 ? data : Buffer.concat([pending, data]);
    for (;;) {
      const end = pending.indexOf('\r\n\r\n');
      if (end === -1) return;
      if (pending.subarray(0, 4).equals(GET)) {
        socket.write(told(pending.toString('latin1', 0, end)));
        pending = pending.subarray(end + 4);
        continue;
      }
      const head = pending.toString('latin1', 0, end);
      const length = /content-length: (\d+)/i.exec(head)?.[1] ?? '0';
      const total = end + 4 + Number(length);
      if (pending.length < total) return;
      pending = pending.subarray(total);
      calls.push(now());
      const reply = head.includes('/chat/completions') ? answer : completion;
      if (latencyMs === 0) socket.write(reply);
      else setTimeout(() => socket.write(reply), latencyMs);
    }
  });
}

const server = createServer(serve).listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null) process.stdout.write(`${address.port}\n`);
});
