import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';
import type { LogLevel } from '../config/settings.js';

/** The log on standard error: JSON lines, or readable ones where a person looks on. */
export function createLog(level: LogLevel): Logger {
  // Neither host name nor process id: logs of a run belong to its process, and get shared in bug reports.
  const options = { level, base: null };
  if (process.stderr.isTTY !== true) return pino(options, pino.destination({ fd: 2, sync: true }));
  return pino(options, pretty({ destination: 2, sync: true, translateTime: 'HH:MM:ss' }));
}
