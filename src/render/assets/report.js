import DataTable from 'datatables.net';

/** Makes a table of rows sortable, searchable and paged. Without this script it is the same table, whole. */
for (const box of document.querySelectorAll('.rows')) {
  const table = box.querySelector('table');
  const tools = box.querySelector('.tools');
  const search = box.querySelector('input');
  const missing = box.querySelector('.missing');
  if (!(table instanceof HTMLTableElement && tools instanceof HTMLElement && search && missing)) continue;
  const buttons = [...box.querySelectorAll('button')];
  /** Links of the rows: those of other pages of the table are not in the document. */
  const links = new Map([...table.querySelectorAll('a')].map((link) => [`#${link.id}`, link]));
  /** The pressed button of each column. @type {Map<number, HTMLButtonElement>} */
  const chosen = new Map();
  /** @type {Map<number, Set<string | undefined>>} */
  const names = new Map();

  const rows = new DataTable(table, {
    autoWidth: false,
    order: [],
    pageLength: 25,
    lengthMenu: [25, 100, 500, 2000],
    layout: { topStart: null, topEnd: null, bottomStart: ['info', 'pageLength'], bottomEnd: 'paging' },
    language: {
      info: 'Rows _START_ to _END_ of _TOTAL_ shown here',
      infoEmpty: 'No rows',
      infoFiltered: '(of _MAX_ in this table)',
      lengthMenu: '_MENU_ on a page',
      zeroRecords: 'No row here is like that.',
    },
    infoCallback: (_settings, _start, _end, _max, total, told) => {
      const [one, another] = chosen.values();
      const all = another || search.value !== '' ? total : Number(one?.dataset['rows'] ?? total);
      return all > total ? `${told}; the output has ${all.toLocaleString('en-US')} such rows` : told;
    },
  });
  tools.hidden = false;
  search.addEventListener('input', () => rows.search(search.value, { smart: false }).draw());

  rows.search.fixed('chosen', (_text, _row, index) =>
    [...chosen].every(([column, { dataset }]) => {
      const { textContent: cell = '' } = rows.cell(index, column).node();
      const { choice = '' } = dataset;
      // Several labels have ; between them, unless one label has it in its name.
      return cell === choice || (!names.get(column)?.has(cell) && cell.split(';').includes(choice));
    }),
  );
  /** @type {() => void} */
  const choose = () => {
    const pressed = [...chosen.values()];
    for (const each of buttons) {
      const isPressed = each.dataset['choice'] === undefined ? pressed.length === 0 : pressed.includes(each);
      each.setAttribute('aria-pressed', String(isPressed));
    }
    rows.draw();
  };
  for (const button of buttons) {
    const column = Number(button.closest('[data-column]')?.getAttribute('data-column'));
    names.set(column, (names.get(column) ?? new Set()).add(button.dataset['choice']));
    button.addEventListener('click', () => {
      if (button.dataset['choice'] === undefined) chosen.clear();
      else if (chosen.get(column) === button) chosen.delete(column);
      else chosen.set(column, button);
      choose();
    });
  }

  /** The row that the address names, such as `#row-17`. */
  const showRow = () => {
    const { hash } = location;
    const link = links.get(hash);
    const row = link?.closest('tr');
    for (const [, each] of links) each.removeAttribute('aria-current');
    missing.textContent =
      row || !/^#row-\d+$/.test(hash) ? '' : `Row ${hash.slice(5)} of the output is not among the rows here.`;
    if (missing.textContent !== '') tools.scrollIntoView({ block: 'center' });
    if (!row || !link) return;
    if (!row.isConnected) {
      chosen.clear();
      search.value = '';
      rows.search('');
      choose();
      const place = rows.rows({ search: 'applied' }).indexes().toArray().indexOf(rows.row(row).index());
      rows.page(Math.floor(place / rows.page.len())).draw('page');
    }
    link.setAttribute('aria-current', 'true');
    row.scrollIntoView({ block: 'center' });
    link.focus({ preventScroll: true });
  };
  window.addEventListener('hashchange', showRow);
  showRow();
}
