/** Seconds of a duration as the job file has it: `90s`, `30m`, `8h`, `1h30m`. The job's schema has checked its form. */
export function durationSeconds(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
}
