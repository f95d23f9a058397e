/**
 * @import { ReportSection } from '../../../render/sections.js'
 * @import { Figure } from '../front-page.js'
 * @import { RunPage } from '../run-page.js'
 */
import { ask, attribute, copy, dated, describe, find, legend, list, say, stack } from './dom.js';

/** A run that goes on is looked at so often. */
const EVERY_MS = 2000;

const id = location.pathname.split('/')[2] ?? '';
let state = '';

async function look() {
  let again = true;
  try {
    const response = await ask(`/api/runs/${id}`);
    if (response.ok) again = show(await response.json());
    find('#missing').hidden = response.status !== 404;
    document.body.toggleAttribute('data-stale', !response.ok && response.status !== 404);
  } catch {
    document.body.dataset.stale = '';
  }
  if (again) setTimeout(look, EVERY_MS);
}

/**
 * @param {RunPage} run
 * @returns {boolean} whether it may change yet
 */
function show(run) {
  document.title = `${run.job} – Promptmill`;
  say(find('#job'), run.job);
  say(find('#state'), run.stateText);
  find('#state').dataset.state = run.state;
  attribute(find('#json'), 'href', `/runs/${id}/summary.json`);
  find('#note').hidden = run.note === null;
  say(find('#note'), run.note ?? '');
  say(find('#rows-text'), run.rowsText);
  stack(find('#stack'), run.shares, run.rowsText);
  legend(find('#legend'), run.shares);
  describe(find('#figures'), run.figures);
  find('#figures').hidden = run.figures.length === 0;
  const facts = /** @type {Figure[]} */ (run.facts.map(([label, value]) => [label, dated(value)]));
  describe(find('#facts'), facts, false);
  list(
    find('#sections'),
    run.sections,
    ({ title }) => title,
    () => copy('section'),
    showSection,
  );
  find('#run').hidden = false;
  if (state !== '' && state !== run.stateText) say(find('#news'), run.stateText);
  state = run.stateText;
  return !run.ended;
}

/**
 * @param {HTMLElement} element
 * @param {ReportSection} section
 */
function showSection(element, section) {
  say(find('h2', element), section.title);
  list(
    find('tbody', element),
    section.rows,
    ({ name }) => name,
    () => copy('section-row'),
    (row, { name, value, percent, fraction }) => {
      say(find('th', row), name);
      say(find('td', row), dated(value));
      find('td', row).className = value.length > 20 ? 'value' : 'number';
      say(find('.percent', row), percent ?? '');
      find('.percent', row).hidden = percent === null;
      find('.bar', row).hidden = fraction === null;
      for (const bar of row.querySelectorAll('rect')) attribute(bar, 'width', String(100 * (fraction ?? 0)));
    },
  );
}

look();
