import { type Fire, type FireEnd, listenForFires } from '../../src/schedule/fires.js';
import type { Store } from '../../src/store/store.js';

/** Listens to the schedule until so many fires have come. @returns all that came */
export async function hear(
  store: Store,
  count: number,
  onFire: (fire: Fire) => Promise<FireEnd>,
): Promise<Fire[]> {
  const fires: Fire[] = [];
  let enough: () => void = () => {};
  const came = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const listening = listenForFires({
    store,
    emulated: false,
    onError: () => {},
    onFire: (fire) => {
      fires.push(fire);
      if (fires.length >= count) enough();
      return onFire(fire);
    },
  });
  await came;
  await listening.close();
  return fires;
}
