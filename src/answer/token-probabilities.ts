import { isObject } from '../json.js';
import type { Json } from '../model.js';

/** `likeliest`: in the token's place, including itself, with probabilities 0 to 1. */
export interface TokenChoice {
  readonly token: string;
  readonly likeliest: ReadonlyMap<string, number>;
}

/** Accepts the form of completions (parallel arrays) and of chat servers (a list of objects). */
export function tokenChoices(logprobs: Json | undefined, most: number): readonly TokenChoice[] {
  if (!isObject(logprobs)) return [];
  const { tokens, token_logprobs: own, top_logprobs: tops, content } = logprobs;
  if (isList(content)) {
    return content.slice(0, most).flatMap((each) => {
      const { token, logprob, top_logprobs: top } = isObject(each) ? each : {};
      const others = isList(top) ? top.filter(isObject) : [];
      return choice(
        token,
        logprob,
        others.map((other): [unknown, unknown] => [other['token'], other['logprob']]),
      );
    });
  }
  if (!isList(tokens) || !isList(own) || !isList(tops)) return [];
  return tokens.slice(0, most).flatMap((token, i) => {
    const top = tops[i];
    return choice(token, own[i], isObject(top) ? Object.entries(top) : []);
  });
}

function choice(token: unknown, own: unknown, top: readonly (readonly [unknown, unknown])[]): TokenChoice[] {
  if (typeof token !== 'string') return [];
  const likeliest = new Map<string, number>();
  for (const [other, logprob] of [[token, own] as const, ...top])
    if (typeof other === 'string' && typeof logprob === 'number')
      likeliest.set(other, Math.exp(Math.min(0, logprob)));
  return likeliest.size === 0 ? [] : [{ token, likeliest }];
}

const isList = (value: unknown): value is readonly Json[] => Array.isArray(value);
