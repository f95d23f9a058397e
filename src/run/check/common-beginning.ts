import type { Message, Prompt } from '../../core/model.js';
import { commonLength } from '../../prompt/tokens.js';

/** What the prompts of all rows begin with alike: a service can keep it in its cache. */
export class CommonBeginning {
  #common: readonly Message[] | null = null;
  /** In texts alone there are no roles. */
  #isText = true;

  add(prompt: Prompt): void {
    if (typeof prompt !== 'string') this.#isText = false;
    const messages: readonly Message[] =
      typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt;
    this.#common = this.#common === null ? messages : sharedBy(this.#common, messages);
  }

  /** As a prompt of its own; null before the first. */
  get prompt(): Prompt | null {
    if (this.#common === null) return null;
    return this.#isText ? (this.#common[0]?.content ?? '') : this.#common;
  }
}

function sharedBy(common: readonly Message[], messages: readonly Message[]): readonly Message[] {
  const shared: Message[] = [];
  for (const [i, { role, content }] of common.entries()) {
    const other = messages[i];
    if (other?.role !== role) break;
    const length = commonLength(content, other.content);
    shared.push({ role, content: content.slice(0, length) });
    if (length < content.length || length < other.content.length) break;
  }
  return shared;
}
