/** FNV-1a over UTF-16 code units: cheap, and the same on every machine. */
function hash(text: string, seed: number): number {
  let value = (2_166_136_261 ^ seed) >>> 0;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16_777_619);
  return value >>> 0;
}

/**
 * Numbers in [0, 1) that depend on the arguments only (mulberry32 from an FNV-1a seed): repeatable
 * rehearsals.
 */
export function randomFrom(seed: number, text: string): () => number {
  let state = hash(text, seed);
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A 53-bit number that identifies a text in counts: wide enough for a million texts. */
export function fingerprintOf(text: string): number {
  return (hash(text, 0) & 0x1f_ffff) * 2 ** 32 + hash(text, 0x9e37_79b9);
}

export function pick<T>(random: () => number, list: readonly [T, ...T[]]): T {
  return list[Math.floor(random() * list.length)] ?? list[0];
}
