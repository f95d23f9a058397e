import type { Redis } from 'ioredis';
import { REGISTER_TTL_MS, type Register, type RegisterReply } from '../register.js';

/** KEYS register; ARGV before after ttl. An empty text stands for none. Returns whether written, text, microtime. */
const SWAP = `
local time = redis.call('TIME')
local text = redis.call('GET', KEYS[1]) or ''
local written = 0
if text == ARGV[1] and ARGV[2] ~= '' then
  text, written = ARGV[2], 1
  redis.call('SET', KEYS[1], text, 'PX', ARGV[3])
end
return {written, text, time[1], time[2]}
`;

/** The register on Redis and Valkey. A full server refuses to write; reading goes on. */
export class RedisRegister implements Register {
  constructor(private readonly client: Redis) {}

  read(name: string): Promise<RegisterReply> {
    return this.#eval(name, '', '');
  }

  swap(name: string, before: string | null, after: string): Promise<RegisterReply> {
    return this.#eval(name, before ?? '', after);
  }

  async #eval(name: string, before: string, after: string): Promise<RegisterReply> {
    const key = `promptmill:pace:${name}`;
    const reply = await this.client.eval(SWAP, 1, key, before, after, REGISTER_TTL_MS);
    const [written, text, seconds, micros] = Array.isArray(reply) ? reply : [];
    const now = Number(seconds) * 1000 + Number(micros) / 1000;
    return { written: written === 1, text: text === '' ? null : String(text), now };
  }
}
