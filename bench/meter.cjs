const { readFileSync, writeFileSync } = require('node:fs');

/**
 * Preloaded into a process that is measured (`node --require`). It does nothing until the process ends: then what it took
 * is written as JSON to the file that BENCH_METER names; `meter.ts` has the form.
 */
process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const main = /^\d+/.exec(told('/proc/thread-self/schedstat'));
  // `maxRSS` begins with that of the process that started this one.
  const peak = /VmHWM:\s+(\d+) kB/.exec(told('/proc/self/status'));
  const figures = {
    cpu_us: userCPUTime + systemCPUTime,
    main_us: main === null ? null : Number(main[0]) / 1000,
    peak_bytes: (peak === null ? maxRSS : Number(peak[1])) * 1024,
  };
  writeFileSync(process.env.BENCH_METER, JSON.stringify(figures));
});

/** A text of the system; empty where it has none. */
function told(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
