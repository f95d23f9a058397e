import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, expect, it } from 'vitest';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedReply, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

const CANARY = 'canary-key-one-4f1b9d7c2e';
const SECOND = 'canary-key-two+8a3c/6e5d=1f';

const escaped = (code: (char: string) => string) => SECOND.replace(/\W/g, code);
const hex = (char: string, digits: number) => char.charCodeAt(0).toString(16).padStart(digits, '0');
const BASIC = Buffer.from(`user:${SECOND}`).toString('base64');

/** Every way in which a call can end; some of them quote the key, as gateways do. */
const FORMS: readonly ScriptedReply[] = [
  {},
  { status: 400, json: { error: { code: 'BadRequest', message: `not with key ${SECOND}` } } },
  { status: 400, json: { error: { code: 'content_filter', message: 'filtered' } } },
  { status: 500, json: { error: { type: 'server_error', message: `failed for ${SECOND}` } } },
  { status: 503, text: `<html>${SECOND}</html>` },
  { status: 429, headers: { 'retry-after': '1' }, json: { error: { code: '429', message: SECOND } } },
  { text: `${SECOND} is no JSON` },
  { json: { error: { message: SECOND } } },
  { answer: { text: `your key is ${SECOND}` } },
  { truncate: 30 },
  'reset',
  // In escapes.
  { status: 400, text: `{"error":{"code":"x","message":"no ${escaped((char) => `\\u${hex(char, 4)}`)}"}}` },
  { status: 400, text: `{"error":{"code":"x","message":"no ${SECOND.replaceAll('/', '\\/')}"}}` },
  { answer: { text: `{"key":"${escaped((char) => `\\u${hex(char, 4).toUpperCase()}`)}"}` } },
  { answer: { text: `your key is ${encodeURIComponent(SECOND)}` } },
  { answer: { text: `your key is ${escaped((char) => `%${hex(char, 2)}`)}` } },
  { answer: { text: `your key is ${escaped((char) => `&#${char.charCodeAt(0)};`)}` } },
  { status: 400, json: { message: `no ${SECOND.replace('+', '&plus;').replace('/', '&sol;')}` } },
  { status: 400, text: `no ${escaped((char) => `&#x${hex(char, 2)};`)}` },
  { status: 500, json: { error: { message: `Authorization: Basic ${BASIC}` } } },
  { answer: { text: `{"basic":"${BASIC.replaceAll('/', '\\/')}"}` } },
];

/** What may stand for a character, decoded without the code that is tested; a decoder goes over a text once. */
const DECODERS: readonly ((text: string) => string)[] = [
  (text) => text.replace(/\\+u([0-9a-f]{4})|\\+x([0-9a-f]{2})/gi, (_, four, two) => ofHex(four ?? two)),
  (text) => text.replace(/\\+(?=["/\\])/g, ''),
  (text) => text.replace(/%([0-9a-f]{2})/gi, (_, two) => ofHex(two)),
  (text) =>
    text.replace(/&#(\d{1,5});|&#x([0-9a-f]{1,4});/gi, (_, ten, two) =>
      two ? ofHex(two) : String.fromCharCode(ten),
    ),
  (text) => text.replaceAll('&plus;', '+').replaceAll('&sol;', '/').replaceAll('&equals;', '='),
];
const ofHex = (digits: string) => String.fromCharCode(Number.parseInt(digits, 16));

/** Neither a key, nor one in base64: of `user:KEY` what lies between the bits that others have a part in. */
const SECRETS = [CANARY, SECOND, BASIC.slice(8, -4)];
const tells = (text: string): boolean => {
  const plain = DECODERS.reduce((decoded, decode) => decode(decoded), text);
  return SECRETS.some((secret) => text.includes(secret) || plain.includes(secret));
};

describeEachStore('faults 53 and 78: the keys', (store) => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it('are in no file, log, queue entry, error or process list after a run through every form', async () => {
    const commandLines: string[] = [];
    const elsewhere = await startScriptedService();
    let running: ReturnType<Workplace['start']> | null = null;
    const service = await startScriptedService(({ headers, prompt, count }) => {
      const pid = running?.process.pid;
      if (pid !== undefined) commandLines.push(readFileSync(`/proc/${pid}/cmdline`, 'latin1'));
      if (headers['api-key'] !== SECOND) {
        return { status: 401, json: { statusCode: 401, message: `key ${CANARY} is not valid` } };
      }
      if (prompt === 'row 999') return { status: 307, headers: { location: elsewhere.url } };
      const reply = FORMS[Number(prompt.split(' ')[1]) % FORMS.length] ?? {};
      return count > 2 ? {} : reply;
    });
    const env = {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_API_KEY: CANARY,
      PROMPTMILL_API_KEY_2: SECOND,
      ...store().env,
    };
    const said: string[] = [];
    try {
      work.write('redirect.csv', 'id,note\n999,x\n');
      const limits = { attempts: 2, concurrency: 4 };
      const job = work.job({
        service: serviceOn(store()),
        input: { path: work.rows(44) },
        output: { path: 'out/r.jsonl' },
        limits,
        report: true,
      });
      for (const args of [[job], [job, '--input', 'redirect.csv', '--output', 'out/s.jsonl']]) {
        running = work.start(['run', ...args, '--log-level', 'trace'], env);
        const { stdout, stderr } = await running.ended;
        said.push(stdout, stderr);
      }
    } finally {
      await service.close();
      await elsewhere.close();
    }

    expect(FORMS.filter((form) => tells(JSON.stringify(form))).length).toBe(FORMS.length - 4);
    expect(work.read('out/r.jsonl').trim().split('\n').length).toBe(44);
    expect(work.read('out/r.report.html').includes('All 44 rows of the output.')).toBe(true);
    expect(service.requests.some(({ headers }) => headers['api-key'] === SECOND)).toBe(true);
    expect(elsewhere.requests).toEqual([]);
    expect(commandLines.length).toBeGreaterThan(0);
    const places = [
      ...said.map((text, i) => [`output ${i}`, text]),
      ...commandLines.map((line) => ['command line', line]),
      ...filesBelow(work.folder),
      ...filesBelow(store().stateDir),
      ...(await entriesOf(store().target)),
    ];
    const found = places.filter(([, text]) => tells(text ?? ''));
    expect(found.map(([place]) => place)).toEqual([]);
  });
});

function filesBelow(folder: string): [path: string, text: string][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => [path, readFileSync(path, 'latin1')]);
}

/** All that a Redis server holds, as it would write it to disk. */
async function entriesOf(target: string): Promise<[key: string, value: string][]> {
  if (!target.startsWith('redis:')) return [];
  const redis = new Redis(target);
  try {
    const keys = await redis.keys('*');
    const values = await Promise.all(keys.map((key) => redis.dumpBuffer(key)));
    return keys.map((key, i) => [key, values[i]?.toString('latin1') ?? '']);
  } finally {
    redis.disconnect();
  }
}
