/** JSON as text: values that must leave as they came are copied, not parsed and written again. */

/** Index of the quote that ends the string which begins at `start`, or −1 when nothing ends it. */
export function stringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) break;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

/**
 * The members of a JSON object as they are written, without the white space between tokens: digits of a big
 * number, `1.10` and the order of keys survive (fault 10). The last of two members with one name counts, as in
 * `JSON.parse`. Runs without recursion, so depth is no danger.
 * @param object text that `JSON.parse` has accepted as an object
 */
export function memberTexts(object: string): Map<string, string> {
  const members = new Map<string, string>();
  let key = object.indexOf('"');
  while (key >= 0) {
    const keyEnd = stringEnd(object, key);
    const name: unknown = JSON.parse(object.slice(key, keyEnd + 1));
    const value = valueAt(object, object.indexOf(':', keyEnd) + 1);
    members.set(String(name), value.text);
    key = object.indexOf('"', value.end);
  }
  return members;
}

/** The value that begins at `start`, and the index of the comma or bracket behind it. */
function valueAt(text: string, start: number): { text: string; end: number } {
  let copied = '';
  let from = start;
  let depth = 0;
  let at = start;
  for (; at < text.length; at++) {
    const char = text[at];
    if (char === '"') at = stringEnd(text, at);
    else if (char === '{' || char === '[') depth++;
    else if (depth === 0 && (char === ',' || char === '}')) break;
    else if (char === '}' || char === ']') depth--;
    else if (char === ' ' || char === '\t' || char === '\n' || char === '\r') {
      copied += text.slice(from, at);
      from = at + 1;
    }
  }
  return { text: copied + text.slice(from, at), end: at };
}
