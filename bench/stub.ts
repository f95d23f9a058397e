import { createServer, type Socket } from 'node:net';

/**
 * A completions endpoint that answers at once with the same body, in a process of its own. It reads just
 * enough HTTP/1.1 to find the end of a request, so that it costs less than any client under test.
 * Prints its port on standard output.
 */
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
const reply = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
);

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
      const length = /content-length: (\d+)/i.exec(pending.toString('latin1', 0, end))?.[1] ?? '0';
      const total = end + 4 + Number(length);
      if (pending.length < total) return;
      pending = pending.subarray(total);
      socket.write(reply);
    }
  });
}

const server = createServer(serve).listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null) process.stdout.write(`${address.port}\n`);
});
