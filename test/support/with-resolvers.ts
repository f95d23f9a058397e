/** `Promise.withResolvers`, which Node.js 20 has not: what a test waits for, and what says that it has happened. */
export function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
