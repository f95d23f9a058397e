import { createServer, type Socket } from 'node:net';

/**
 * A completions endpoint that answers with the same body, at once or after the milliseconds of its first argument, in a process of its own. It reads just
 * enough HTTP/1.1 to find the end of a request, so that it costs less than any client under test.
 * Prints its port on standard output; GET /stats tells the calls, and when the first and the last came.
 */
const latencyMs = Number(process.argv[2] ?? 0);
const stats = { calls: 0, first_ms: 0, last_ms: 0 };
const body = JSON.stringify({
  id: 'cmpl-bench',
  object: 'text_completion',
  created: 1_700_000_000,
  model: 'lm-35-turbo-instruct',
  prompt_filter_results: [{ prompt_index: 0, content_filter_results: safe() }],
  choices: [
    { text: ' positive', index: 0, finish_reason: 'stop', logprobs: null, content_filter_results: safe() },
  ],
  usage: { prompt_tokens: 60, completion_tokens: 1, total_tokens: 61 },
});
const GET = Buffer.from('GET ');
const response = (text: string): Buffer =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
const reply = response(body);

function count(): void {
  stats.last_ms = Date.now();
  if (stats.calls++ === 0) stats.first_ms = stats.last_ms;
}

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
        pending = pending.subarray(end + 4);
        socket.write(response(JSON.stringify(stats)));
        continue;
      }
      const length = /content-length: (\d+)/i.exec(pending.toString('latin1', 0, end))?.[1] ?? '0';
      const total = end + 4 + Number(length);
      if (pending.length < total) return;
      pending = pending.subarray(total);
      count();
      if (latencyMs === 0) socket.write(reply);
      else setTimeout(() => socket.write(reply), latencyMs);
    }
  });
}

const server = createServer(serve).listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null) process.stdout.write(`${address.port}\n`);
});
