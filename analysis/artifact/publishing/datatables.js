(function () {
  if (window.filterable) return;
  const style = document.createElement('style');
  style.textContent = atob('STYLE');
  document.head.appendChild(style);
  const bytes = Uint8Array.from(atob('BUNDLE'), c => c.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes], {type: 'application/javascript'}));
  const ready = import(address);
  window.filterable = function (identifier, options) {
    ready.then(bundle => {
      // a table may stand twice where the book is one page
      const table = Array.from(document.querySelectorAll('#' + identifier)).find(each => !each.dataset.filtered);
      if (!table) return;
      table.dataset.filtered = 'yes';
      const whole = table.cloneNode(true), rows = whole.tBodies[0].rows, most = 200;
      whole.removeAttribute('id'); whole.classList.add('print-whole');
      const all = rows.length;
      while (rows.length > most) rows[most].remove();
      table.closest('.result-table').append(whole);
      if (all > most) {
        const note = document.createElement('p');
        note.className = 'print-whole'; note.textContent = 'The first ' + most + ' of ' + all + ' rows; the CSV has them all.';
        whole.after(note);
      }
      if (innerWidth <= 600 && options.paging) { options.pageLength = 5; options.lengthMenu = [5, 10, 25, 100]; }
      new bundle.ITable(table, options);
      const box = table.closest('.result-table');
      const caption = box.querySelector('.table-caption').firstChild.textContent.trim();
      box.querySelectorAll('.dt-paging nav').forEach(pages => pages.setAttribute('aria-label', 'Pages of: ' + caption));
      if (window.reachable) window.reachable();
    });
  };
})();
