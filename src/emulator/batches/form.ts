import { invalidRequest } from '../refusal.js';

/** A field of a form begins; its bytes follow. */
export interface Field {
  readonly name: string;
  /** `null` for a field that is no file. */
  readonly filename: string | null;
}

const HEAD_END = '\r\n\r\n';
/** Bytes of a field's head. */
const LARGEST_HEAD = 16 * 1024;

/**
 * A `multipart/form-data` body as it comes: fields, and behind each its bytes in pieces. It holds no more than a
 * piece. @throws Refusal
 */
export async function* readForm(
  contentType: string | undefined,
  body: AsyncIterable<Buffer>,
): AsyncGenerator<Field | Buffer> {
  const [, quoted, plain] =
    /^multipart\/form-data\b.*;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType ?? '') ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw invalidRequest('The body must be multipart/form-data.');
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // What comes before the first field is dropped; its delimiter needs no line end before it.
  let rest: Buffer = Buffer.from('\r\n');
  let inField = true;
  let isFirst = true;
  for await (const chunk of body) {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const end = rest.indexOf(inField ? delimiter : HEAD_END);
      if (end < 0) break;
      const piece = rest.subarray(0, end);
      rest = rest.subarray(end + (inField ? delimiter.length : HEAD_END.length));
      if (!inField) yield fieldOf(piece.toString());
      else if (!isFirst && end > 0) yield piece;
      isFirst = false;
      inField = !inField;
    }
    if (!inField) {
      if (rest.length > LARGEST_HEAD) throw invalidRequest('A field of the form has too large a head.');
      continue;
    }
    // The last bytes may be the beginning of a delimiter.
    const known = rest.length - delimiter.length;
    if (known <= 0) continue;
    if (!isFirst) yield rest.subarray(0, known);
    rest = rest.subarray(known);
  }
  if (inField || !rest.subarray(0, 2).equals(Buffer.from('--'))) {
    throw invalidRequest('The form ends before its last boundary.');
  }
}

function fieldOf(head: string): Field {
  const [, name] = /;\s*name="([^"]*)"/i.exec(head) ?? [];
  const [, filename] = /;\s*filename="([^"]*)"/i.exec(head) ?? [];
  return { name: name ?? '', filename: filename ?? null };
}
