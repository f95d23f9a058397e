/** @import { Figure, Share } from '../front-page.js' */

// Whatever comes from the server ends up here as text of a node and never as markup: names of jobs and answers of a
// model may hold anything.

/**
 * Asks the server that the page came from. `fetch` refuses an address that has a login in it, which is what a path becomes
 * on a page that was opened as `http://user:password@…`; the browser sends the login all the same.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export const ask = (path, options) => fetch(new URL(path, location.origin), options);

/**
 * The only element that fits.
 * @param {string} selector
 * @param {ParentNode} parent
 * @returns {HTMLElement}
 */
export function find(selector, parent = document) {
  const found = parent.querySelector(selector);
  if (!(found instanceof HTMLElement)) throw new Error(`the page has no ${selector}`);
  return found;
}

/**
 * A copy of what a template holds.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function copy(id) {
  const template = document.getElementById(id);
  const first = template instanceof HTMLTemplateElement ? template.content.firstElementChild : null;
  const made = first?.cloneNode(true);
  if (!(made instanceof HTMLElement)) throw new Error(`the page has no template ${id}`);
  return made;
}

/**
 * Sets a text where it differs, so that a selection or a screen reader is not disturbed each second.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
export function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * Makes the children of a parent those of a list, in its order. A child stays the same element as long as its key is
 * there, so that the focus stays where it is and what was opened stays open.
 * @template Item
 * @param {Element} parent
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} keyOf
 * @param {(item: Item) => HTMLElement} make
 * @param {(element: HTMLElement, item: Item) => void} update
 */
export function list(parent, items, keyOf, make, update) {
  const wanted = new Set(items.map(keyOf));
  /** @type {Map<string | undefined, HTMLElement>} */
  const there = new Map();
  for (const child of [...parent.children]) {
    if (!(child instanceof HTMLElement)) continue;
    if (wanted.has(child.dataset.key ?? '')) there.set(child.dataset.key, child);
    else child.remove();
  }
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = there.get(key) ?? make(item);
    element.dataset.key = key;
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
    update(element, item);
  }
}

/**
 * Labels and values as a description list.
 * @param {Element} parent
 * @param {readonly Figure[]} figures
 */
export function describe(parent, figures, grouped = true) {
  if (grouped) {
    list(
      parent,
      figures,
      ([label]) => label,
      pairOf,
      (pair, [, value]) => say(find('dd', pair), value),
    );
    return;
  }
  const flat = figures.flatMap(([label, value]) => [
    { key: `dt ${label}`, name: 'dt', text: label },
    { key: `dd ${label}`, name: 'dd', text: value },
  ]);
  list(
    parent,
    flat,
    ({ key }) => key,
    ({ name }) => document.createElement(name),
    (element, { text }) => say(element, text),
  );
}

/** @param {Figure} figure */
function pairOf([label]) {
  const pair = document.createElement('div');
  const name = document.createElement('dt');
  name.textContent = label;
  pair.append(name, document.createElement('dd'));
  return pair;
}

/**
 * A moment in the time zone of whoever reads it. All dates of the dashboard have this form.
 * @param {string | number | Date} moment
 */
export const when = (moment) =>
  new Date(moment).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/**
 * The same for moments within a text, as the server writes them.
 * @param {string} text
 */
export const dated = (text) =>
  text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, date, time) => when(`${date}T${time}Z`));

/**
 * A picture of the shares of a whole.
 * @param {Element} bar
 * @param {readonly Share[]} shares
 * @param {string} text what it says, for those who do not see it
 */
export function stack(bar, shares, text) {
  attribute(bar, 'aria-label', text === '' ? 'No row has ended yet' : text);
  attribute(bar, 'title', text);
  parts(bar, shares);
}

/**
 * @param {Element} bar
 * @param {readonly Pick<Share, 'name' | 'fraction'>[]} shares
 */
export function parts(bar, shares) {
  list(
    bar,
    shares.filter(({ fraction }) => fraction > 0),
    ({ name }) => name,
    ({ name }) => {
      const part = document.createElement('span');
      part.dataset.kind = name;
      return part;
    },
    (part, { fraction }) => {
      part.style.width = `${Math.min(1, fraction) * 100}%`;
    },
  );
}

/**
 * The same shares as text.
 * @param {Element} parent
 * @param {readonly Share[]} shares
 */
export function legend(parent, shares) {
  list(
    parent,
    shares,
    ({ name }) => name,
    ({ name }) => {
      const entry = document.createElement('li');
      const colour = document.createElement('i');
      colour.dataset.kind = name;
      entry.append(colour, document.createElement('b'), ` ${name} `, document.createElement('span'));
      return entry;
    },
    (entry, { count, percent }) => {
      say(find('b', entry), count);
      say(find('span', entry), percent);
    },
  );
}
