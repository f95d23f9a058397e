import DataTable from 'datatables.net';

/** Makes a table of rows sortable, searchable and paged. Without this script it is the same table, whole. */
for (const box of document.querySelectorAll('.rows')) {
  const table = box.querySelector('table');
  const tools = box.querySelector('.tools');
  const search = box.querySelector('input');
  if (!(table instanceof HTMLTableElement && tools instanceof HTMLElement && search)) continue;
  const buttons = [...box.querySelectorAll('button')];

  const rows = new DataTable(table, {
    autoWidth: false,
    order: [],
    pageLength: 25,
    lengthMenu: [25, 100, 500, 5000],
    layout: { topStart: null, topEnd: null, bottomStart: ['info', 'pageLength'], bottomEnd: 'paging' },
    language: {
      info: 'Rows _START_ to _END_ of _TOTAL_ shown here',
      infoEmpty: 'No rows',
      infoFiltered: ', of _MAX_ in this table',
      lengthMenu: '_MENU_ on a page',
      zeroRecords: 'No row is like that.',
    },
  });
  tools.hidden = false;
  search.addEventListener('input', () => rows.search(search.value, { smart: false }).draw());

  const chosen = rows.column('.choice');
  for (const button of buttons) {
    button.addEventListener('click', () => {
      for (const each of buttons) each.setAttribute('aria-pressed', String(each === button));
      const { choice = '' } = button.dataset;
      chosen.search(choice, { exact: choice !== '' }).draw();
    });
  }
}
