import { afterEach, beforeEach } from 'vitest';
import { Workplace } from './promptmill.js';
import { type Script, type ScriptedService, startScriptedService } from './scripted-service.js';

/** What each test of a file finds anew. */
interface ScriptedPlace {
  work: Workplace;
  service: ScriptedService;
  /** What the service answers; a test may replace it at any time. @default every call gets `completionBody()` */
  script: Script;
}

/** A folder to work in and a service that answers as the test says, for each test of the file or block. */
export function scriptedPlace(): ScriptedPlace {
  const place = {} as ScriptedPlace;
  beforeEach(async () => {
    place.work = new Workplace();
    place.script = () => ({});
    place.service = await startScriptedService((request) => place.script(request));
  });
  afterEach(async () => {
    await place.service.close();
    place.work.remove();
  });
  return place;
}
