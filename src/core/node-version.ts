/** `20.19.0` and later of 20; `22.2.0` and later: the "engines" of package.json. */
const RANGES: readonly (readonly [major: number, minor: number])[] = [
  [20, 19],
  [22, 2],
];

/** Null when this Node.js can run Promptmill. Modules loaded before must work in older versions too. */
export function nodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [, newest] = RANGES.map(([each]) => each);
  const isFit = RANGES.some(([each, least]) => major === each && minor >= least) || major > (newest ?? 0);
  if (isFit) return null;
  return `this is Node.js ${version}, and Promptmill needs 20.19 or a later 20, or 22.2 or later`;
}
