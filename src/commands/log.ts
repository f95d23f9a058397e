import { type Logger, pino, stdSerializers } from 'pino';
import type { LogLevel } from '../config/settings.js';
import { loadPackage } from '../core/load-package.js';

/** ioredis attaches the refused command to its errors; with AUTH that is the password. */
function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { command: _, previousErrors: __, lastNodeError: ___, ...shown } = { ...stdSerializers.err(error) };
  return shown;
}

/** The log on standard error: JSON lines, or readable lines on a terminal. */
export function createLog(level: LogLevel): Logger {
  // Neither host name nor process id: the logs of a run belong to its process, and get shared in bug reports.
  const options = { level, base: null, serializers: { err: withoutCommand } };
  if (process.stderr.isTTY !== true) return pino(options, pino.destination({ fd: 2, sync: true }));
  // Loaded for a terminal only.
  const { prettyFactory }: typeof import('pino-pretty') = loadPackage('pino-pretty');
  const readable = prettyFactory({
    translateTime: 'HH:MM:ss',
    colorize: process.env['NO_COLOR'] === undefined,
  });
  // Writes to the stream, not the file descriptor: the stream may have a screen on it.
  return pino(options, { write: (line) => void process.stderr.write(readable(line)) });
}
