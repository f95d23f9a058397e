import { createRequire } from 'node:module';
import { type Logger, pino, stdSerializers } from 'pino';
import type { LogLevel } from '../config/settings.js';

const require = createRequire(import.meta.url);

/** ioredis hangs the refused command on its errors, and with AUTH that is the password. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { command: _, previousErrors: __, lastNodeError: ___, ...shown } = { ...stdSerializers.err(error) };
  return shown;
}

/** The log on standard error: JSON lines, or readable ones where a person looks on. */
export function createLog(level: LogLevel): Logger {
  // Neither host name nor process id: logs of a run belong to its process, and get shared in bug reports.
  const options = { level, base: null, serializers: { err: withoutCommand } };
  if (process.stderr.isTTY !== true) return pino(options, pino.destination({ fd: 2, sync: true }));
  // Loaded for a terminal only.
  const { prettyFactory }: typeof import('pino-pretty') = require('pino-pretty');
  const readable = prettyFactory({
    translateTime: 'HH:MM:ss',
    colorize: process.env['NO_COLOR'] === undefined,
  });
  // By the stream, which may have a screen on it, and not by the number of its file.
  return pino(options, { write: (line) => void process.stderr.write(readable(line)) });
}
