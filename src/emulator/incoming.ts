import type { IncomingMessage } from 'node:http';
import { bodyTooLarge, mediaTypeNotSupported } from './refusal.js';

/** Largest request body, in bytes: memory stays bounded whatever is sent. */
const LARGEST_BODY = 16 * 1024 * 1024;

/**
 * The body of a request.
 * @throws Refusal when it is of a media type that holds no JSON, or too large
 */
export async function readBody(request: IncomingMessage): Promise<string> {
  checkMediaType(request.headers['content-type']);
  const parts: Buffer[] = [];
  let size = 0;
  // The connection stays open on a body that is too large: the refusal must still get through.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    size += part.length;
    if (size > LARGEST_BODY) throw bodyTooLarge(LARGEST_BODY);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Anything that may hold JSON passes: clients that send a string often call it text/plain. */
function checkMediaType(contentType: string | undefined): void {
  if (contentType !== undefined && !/json|text\/plain|octet-stream/i.test(contentType)) {
    throw mediaTypeNotSupported(contentType);
  }
}
