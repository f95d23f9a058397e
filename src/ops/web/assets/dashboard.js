/**
 * @import { Section, Table } from '../../../render/document.js'
 * @import { PastRun, RunCard, FrontPage, WorkerRow } from '../front-page.js'
 */
import { ask, attribute, copy, dated, describe, find, legend, list, parts, say, stack, when } from './dom.js';

/** Runs say how they get on about once a second. */
const EVERY_MS = 1000;
/** Nobody sees a hidden page. */
const HIDDEN_MS = 5000;
/** An answer that takes longer will not come. */
const PATIENCE_MS = 10_000;
/** Past runs that are shown before somebody asks for all. */
const FEW = 20;

let all = false;
/** @type {FrontPage | null} */
let shown = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {Map<string, string>} */
let states = new Map();

async function look() {
  clearTimeout(timer);
  try {
    const response = await ask('/api/state', { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!response.ok) throw new Error(String(response.status));
    show(await response.json());
  } catch {
    say(find('#live-text'), shown === null ? 'No answer' : `No answer since ${clock(shown.at)}`);
    attribute(find('#live'), 'data-state', 'silent');
    document.body.dataset.stale = '';
  }
  clearTimeout(timer);
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : EVERY_MS);
}

/** @param {FrontPage} state */
function show(state) {
  shown = state;
  delete document.body.dataset.stale;
  attribute(find('#live'), 'data-state', state.store.ready ? 'ready' : 'silent');
  say(find('#live-text'), state.store.ready ? `${state.store.text}, ${clock(state.at)}` : state.store.text);
  say(find('#version'), `Promptmill ${state.version}`);

  list(
    find('#problems'),
    state.problems,
    (problem) => problem,
    () => copy('problem'),
    say,
  );
  find('#problems-box').hidden = state.problems.length === 0;

  list(
    find('#running'),
    state.running,
    ({ id }) => id,
    () => copy('run-card'),
    showCard,
  );
  say(find('#running-count'), tally(state.running.length));
  find('#idle').hidden = state.running.length > 0;

  list(
    find('#workers'),
    state.workers,
    ({ id }) => id,
    () => copy('worker-row'),
    showWorker,
  );
  say(find('#workers-count'), tally(state.workers.length));
  find('#workers-box').hidden = state.workers.length === 0;
  find('#no-workers').hidden = state.workers.length > 0;

  list(
    find('#queues'),
    state.queues,
    ({ id }) => id,
    () => copy('queue-section'),
    showQueues,
  );

  const past = all ? state.past : state.past.slice(0, FEW);
  list(
    find('#past'),
    past,
    ({ id }) => id,
    () => copy('past-row'),
    showPast,
  );
  say(find('#past-count'), tally(state.past.length));
  find('#past-box').hidden = past.length === 0;
  find('#no-past').hidden = past.length > 0;
  find('#more').hidden = past.length === state.past.length;
  say(find('#more'), `Show all ${state.past.length}`);

  const [first] = state.running;
  document.title = first === undefined ? 'Promptmill' : `${first.percentText} ${first.job} – Promptmill`;
  tellNews(state);
}

/**
 * @param {HTMLElement} card
 * @param {RunCard} run
 */
function showCard(card, run) {
  link(find('.job', card), run);
  pill(card, run);
  const note = find('.note', card);
  note.hidden = run.note === null;
  note.dataset.state = run.state;
  say(note, run.note ?? '');

  const bar = find('.stack', card);
  attribute(bar, 'aria-label', `Progress of ${run.job}`);
  attribute(bar, 'aria-valuemax', String(Math.max(1, run.total)));
  attribute(bar, 'aria-valuenow', String(run.total === 0 ? 1 : run.done));
  attribute(bar, 'aria-valuetext', `${run.percentText}, ${run.progressText}`);
  parts(bar, run.shares);
  say(find('.percent', card), run.percentText);
  say(find('.rows', card), run.progressText);
  legend(find('.legend', card), run.shares);
  describe(find('.figures', card), run.figures);
  describe(find('.facts', card), run.where, false);
  say(find('figcaption', card), run.speedsText);
  find('.spark', card).hidden = run.speeds.length < 2;
  draw(card, run.speeds);
}

/**
 * The throughput as a line, as wide as there is room, the newest point at the right end.
 * @param {HTMLElement} card
 * @param {readonly number[]} speeds
 */
function draw(card, speeds) {
  const width = 60;
  const height = 20;
  const most = Math.max(...speeds, Number.MIN_VALUE);
  const step = width / Math.max(1, speeds.length - 1);
  // A stroke has a width, of which half would be cut off at the top.
  const points = speeds.map(
    (speed, i) => `${(i * step).toFixed(2)},${(height - (speed / most) * (height - 1.5)).toFixed(2)}`,
  );
  const line = points.length < 2 ? '' : `M${points.join('L')}`;
  for (const path of card.querySelectorAll('path')) {
    const area = path.classList.contains('area') && line !== '';
    attribute(path, 'd', area ? `${line}L${width},${height}L0,${height}Z` : line);
  }
}

/**
 * @param {HTMLElement} row
 * @param {WorkerRow} worker
 */
function showWorker(row, worker) {
  say(find('.name', row), worker.name);
  say(find('.deployments', row), worker.deployments);
  say(find('.concurrency', row), worker.concurrency);
  say(find('.in-flight', row), worker.inFlight);
  say(find('.speed', row), worker.speed);
  say(find('.calls', row), worker.calls);
  say(find('.waits', row), worker.note);
}

/**
 * @param {HTMLElement} element
 * @param {Section} section
 */
function showQueues(element, { id, title, blocks }) {
  attribute(element, 'aria-labelledby', `${id}-title`);
  attribute(find('h2', element), 'id', `${id}-title`);
  say(find('h2', element), title);
  const words = blocks.flatMap((block) => (block.kind === 'text' ? [block.text] : []));
  say(find('p', element), words.join(' '));
  find('p', element).hidden = words.length === 0;
  const table = blocks.find((block) => block.kind === 'table');
  find('.panel', element).hidden = table === undefined;
  if (table !== undefined) showTable(find('table', element), table);
}

/**
 * @param {HTMLElement} element
 * @param {Table} table
 */
function showTable(element, { caption, columns, rows }) {
  attribute(element, 'aria-label', caption);
  const names = columns.map(({ name }) => name);
  const cellOf = (/** @type {string} */ tag, /** @type {string} */ role, /** @type {number} */ i) => {
    const cell = document.createElement(tag);
    attribute(cell, 'role', role);
    cell.className = columns[i]?.isNumber ? 'number' : '';
    return cell;
  };
  list(
    find('thead tr', element),
    names,
    (name) => name,
    (name) => cellOf('th', 'columnheader', names.indexOf(name)),
    say,
  );
  const lines = rows.map(({ cells }, i) => ({ key: String(i), cells }));
  list(
    find('tbody', element),
    lines,
    ({ key }) => key,
    () => {
      const row = document.createElement('tr');
      attribute(row, 'role', 'row');
      row.append(...names.map((_, i) => cellOf('td', 'cell', i)));
      return row;
    },
    (row, { cells }) => {
      for (const [i, cell] of [...row.children].entries()) {
        attribute(cell, 'data-label', names[i] ?? '');
        say(cell, dated(cells[i] ?? ''));
      }
    },
  );
}

/**
 * @param {HTMLElement} row
 * @param {PastRun} run
 */
function showPast(row, run) {
  link(find('.job', row), run);
  pill(row, run);
  if (run.note !== null) attribute(find('.pill', row), 'title', run.note);
  attribute(find('time', row), 'datetime', run.startedAt);
  say(find('time', row), when(run.startedAt));
  say(find('.took', row), run.duration);
  say(find('.rows', row), run.rows);
  stack(find('.stack', row), run.shares, run.sharesText);
  say(find('.tokens', row), run.tokens);
  say(find('.cost', row), run.cost);
}

/**
 * @param {HTMLElement} anchor
 * @param {{ readonly id: string, readonly job: string }} run
 */
function link(anchor, { id, job }) {
  say(anchor, job);
  attribute(anchor, 'href', `/runs/${encodeURIComponent(id)}`);
}

/**
 * @param {HTMLElement} parent
 * @param {{ readonly state: string, readonly stateText: string }} run
 */
function pill(parent, { state, stateText }) {
  const element = find('.pill', parent);
  element.dataset.state = state;
  say(element, stateText);
}

/**
 * Changes of state are read out; figures that change each second are not.
 * @param {FrontPage} state
 */
function tellNews({ running, past }) {
  const now = new Map([...running, ...past].map((run) => [run.id, `${run.job}: ${run.stateText}`]));
  const first = states.size === 0 && !find('#news').hasAttribute('data-told');
  const news = [...now].filter(([id, text]) => states.get(id) !== text).map(([, text]) => text);
  if (!first && news.length > 0) say(find('#news'), news.join('. '));
  attribute(find('#news'), 'data-told', '');
  states = now;
}

/** @param {number} count */
const tally = (count) => (count === 0 ? '' : String(count));

/** @param {string} iso */
const clock = (iso) => new Date(iso).toLocaleTimeString();

find('#more').addEventListener('click', () => {
  all = true;
  const next = find('#past').children[FEW];
  if (shown !== null) show(shown);
  // The button is gone; the focus goes on to what it has shown.
  const revealed = next ?? find('#past').children[FEW];
  revealed?.querySelector('a')?.focus();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) look();
});
look();
