/** Milliseconds of a duration as the job file has it: `90s`, `30m`, `8h`, `1h30m`. The job's schema has checked its form. */
export function durationMs(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? [];
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}
