import { listenForTicks, type Tick, type TickEnd } from '../../src/ops/schedule/schedule.js';
import type { Store } from '../../src/store/store.js';

/** Listens to the schedule until so many ticks have come. @returns all that came */
export async function hear(
  store: Store,
  count: number,
  onTick: (tick: Tick) => Promise<TickEnd>,
): Promise<Tick[]> {
  const ticks: Tick[] = [];
  let enough: () => void = () => {};
  const came = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const listening = listenForTicks({
    store,
    emulated: false,
    onError: () => {},
    onTick: (tick) => {
      ticks.push(tick);
      if (ticks.length >= count) enough();
      return onTick(tick);
    },
  });
  await came;
  await listening.close();
  return ticks;
}
