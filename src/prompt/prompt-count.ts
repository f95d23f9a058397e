import type { Tokenizer } from './tokens.js';

/**
 * Counts prompts one after the other, exactly. Prompts of one template begin alike, and their common head is counted
 * once: a template with a few examples in it is most of its prompts.
 *
 * The head ends before a space that follows anything but white space. There both tokenizers begin a new token, whatever
 * stands around it, because their patterns take a space only as the first character of a token. So the tokens of the
 * two parts add up to those of the whole.
 */
export function promptCounter(tokenizer: Pick<Tokenizer, 'count'>): (prompt: string) => number {
  let head = '';
  let headTokens = 0;
  let previous = '';
  return (prompt) => {
    if (head === '' || !prompt.startsWith(head)) {
      head = prompt.slice(0, cutWithin(prompt, commonLength(previous, prompt)));
      headTokens = tokenizer.count(head);
    }
    previous = prompt;
    return headTokens + tokenizer.count(prompt.slice(head.length));
  };
}

/** How many characters two texts have in common from their beginning. */
function commonLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length;
}

/** The last place among the first characters of a text where it may be cut; 0 when there is none. */
function cutWithin(text: string, length: number): number {
  for (let cut = text.lastIndexOf(' ', length - 1); cut > 0; cut = text.lastIndexOf(' ', cut - 1)) {
    if (/\S/.test(text.charAt(cut - 1))) return cut;
  }
  return 0;
}
