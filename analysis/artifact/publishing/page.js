// On every page: names for buttons that the theme leaves without one, charts in the page's colours, room for charts on phones.
document.documentElement.classList.add('js-on');
// What scrolls sideways can be reached by keyboard, and nothing else stops there.
function reachable() {
  document.querySelectorAll('.table-scroll, .dt-layout-cell, .pst-scrollable-table-container, article table.table:not(.result), article .math, article mjx-container, article pre, .interactive, .cell_output, .cell_output > .output, figure').forEach(function (d) {
    var scrolls = d.scrollWidth > d.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(d).overflowX);
    d.classList.toggle('sideways', scrolls && d.querySelector('table') !== null);
    if (!scrolls) { d.removeAttribute('tabindex'); return; }
    d.setAttribute('tabindex', '0');
    if (d.matches('.table-scroll, .dt-layout-cell, .pst-scrollable-table-container')) {
      var caption = d.closest('.result-table') && d.closest('.result-table').querySelector('.table-caption');
      d.setAttribute('role', 'region');
      d.setAttribute('aria-label', 'Table, scrolls sideways' + (caption ? ': ' + caption.firstChild.textContent.trim() : ''));
    }
  });
}
document.addEventListener('DOMContentLoaded', function () {
  document.querySelectorAll('button.search-button, button.search-button__button, .search-button-field').forEach(function (b) {
    b.setAttribute('aria-label', b.innerText.replace(/\s+/g, ' ').trim() || 'Search');  // a name holds the words that are seen
  });
  document.querySelectorAll('button.theme-switch-button').forEach(function (b) { b.setAttribute('aria-label', 'Light or dark'); });
  document.querySelectorAll('nav details > summary').forEach(function (m) {
    var link = m.parentElement.parentElement.querySelector(':scope > a');
    m.setAttribute('aria-label', 'Chapters within ' + (link ? link.textContent.trim() : 'this one'));
  });
  document.querySelectorAll('nav.prev-next-area').forEach(function (n) { n.setAttribute('aria-label', 'Previous and next chapter'); });
  document.querySelectorAll('.sidebar-primary-item:has(> .navbar-brand)').forEach(function (b) { b.setAttribute('role', 'region'); b.setAttribute('aria-label', 'Title of the book'); });
  document.querySelectorAll('article table.table:not(.result)').forEach(function (t) {  // hand-written tables become cards on phones, too
    var heads = Array.prototype.map.call(t.querySelectorAll('thead th'), function (h) { return h.textContent.trim(); });
    if (heads.length < 3 || heads.length === 3 && !Array.prototype.some.call(t.querySelectorAll('tbody td'), function (c) { return c.textContent.length > 45; })) return;
    t.classList.add('cards');
    t.querySelectorAll('tbody tr').forEach(function (r) {
      Array.prototype.forEach.call(r.cells, function (c, k) {
        var whole = document.createElement('div');  // beside the title stands one element, whatever the cell holds
        whole.append.apply(whole, c.childNodes);
        if (whole.textContent.trim()) { c.replaceChildren(whole); c.setAttribute('data-label', heads[k]); } else c.replaceChildren();
      });
    });
  });
  // A long list of cards begins with the first eight; tables to search have pages of their own.
  document.querySelectorAll('article table.cards').forEach(function (t) {
    var rows = t.tBodies[0] ? t.tBodies[0].rows.length : 0, box = t.closest('.result-table');
    if (rows <= 10 || box && box.nextElementSibling && box.nextElementSibling.tagName === 'SCRIPT') return;
    var more = document.createElement('button');
    more.type = 'button'; more.className = 'more-cards'; more.textContent = 'Show all ' + rows + ' rows';
    more.addEventListener('click', function () { t.classList.remove('first-cards'); more.remove(); });
    t.classList.add('first-cards');
    (t.closest('.table-scroll') || t).after(more);
  });
  reachable();
  window.addEventListener('resize', reachable);
});
window.addEventListener('load', function () {
  function titles(d) {  // a title longer than its axis gets lines
    var change = {};
    Object.keys(d._fullLayout).forEach(function (k) {
      var axis = d._fullLayout[k], given = (d.layout[k] || {}).title, words = /^[xy]axis[0-9]*$/.test(k) && given && given.text, margin = k[0] === 'x' ? 'b' : 'l', lines = [''];
      if (!words || words.indexOf('<') >= 0) return;
      var letters = Math.max(8, Math.floor(axis._length / (0.52 * axis.title.font.size)));
      words.split(' ').forEach(function (w) {
        var last = lines.length - 1;
        if (lines[last] && lines[last].length + 1 + w.length > letters) lines.push(w); else lines[last] += (lines[last] ? ' ' : '') + w;
      });
      if (lines.length < 2) return;
      change[k + '.title.text'] = lines.join('<br>');
      change['margin.' + margin] = d._fullLayout.margin[margin] + 16 * (lines.length - 1);
    });
    return change;
  }
  function paint() {
    var dark = document.documentElement.dataset.theme === 'dark';
    document.documentElement.classList.toggle('dark', dark);  // the sign that DataTables looks for
    if (!window.Plotly) return;
    var ink = dark ? '#e6e6e6' : '#222', grid = dark ? '#454a50' : '#ddd';
    document.querySelectorAll('.plotly-graph-div').forEach(function (d) {
      if (!d._fullLayout) return;
      var change = {paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', 'font.color': ink};
      Object.keys(d._fullLayout).forEach(function (k) {
        if (/^[xy]axis[0-9]*$/.test(k)) { change[k + '.gridcolor'] = grid; change[k + '.zerolinecolor'] = grid; change[k + '.linecolor'] = ink; }
      });
      if (d.clientWidth < 560) {
        change['margin.l'] = Math.min(58, d._fullLayout.margin.l); change['margin.r'] = 8;
        var entries = !d._fullLayout.showlegend ? 0 : d._fullData.filter(function (t) { return t.visible && t.showlegend; }).length, high = Math.max(460, 400 + 19 * Math.min(entries, 14));
        if (entries) { change['legend.orientation'] = 'h'; change['legend.x'] = 0; change['legend.xanchor'] = 'left'; change['legend.yref'] = 'container'; change['legend.y'] = 0; change['legend.yanchor'] = 'bottom'; }
        if (d._fullLayout.height < high) { change.height = high; d.parentElement.style.height = high + 'px'; }  // its box, too, or the chart scrolls in it
      }
      var black = /^(black|#000|#000000|#222|#333333|#444|#555555|#e6e6e6)$/;  // what was drawn in black is drawn in the page's ink
      (d.layout.shapes || []).forEach(function (one, k) { if (!one.line || !one.line.color || black.test(one.line.color)) change['shapes[' + k + '].line.color'] = ink; });
      d.data.forEach(function (t, k) {
        var again = {};
        if (t.line && black.test(t.line.color)) again['line.color'] = ink;
        if (t.marker && black.test(t.marker.color)) again['marker.color'] = ink;
        if (Object.keys(again).length) window.Plotly.restyle(d, again, [k]);
      });
      window.Plotly.relayout(d, change).then(function () { return window.Plotly.relayout(d, titles(d)); }).then(reachable);
    });
  }
  document.querySelectorAll('.cell_output > img').forEach(function (i) { i.classList.toggle('narrow', i.naturalWidth < 1000); });  // drawn for half the width
  paint(); reachable();
  if (window.MathJax && window.MathJax.startup) window.MathJax.startup.promise.then(reachable);
  new MutationObserver(paint).observe(document.documentElement, {attributes: true, attributeFilter: ['data-theme']});
});
window.addEventListener('beforeprint', function () {
  document.querySelectorAll('details:not([open])').forEach(function (d) { d.open = true; });
});
// Python to change and run: the interpreter is loaded at the first run.
document.addEventListener('DOMContentLoaded', function () {
  document.querySelectorAll('.live-cell textarea').forEach(function (code) {
    var cell = code.closest('.live-cell'), printed = cell.querySelector('.printed'), first = code.value, said = printed.textContent;
    function grow() { code.rows = code.value.split('\n').length; }
    function run() {
      if (window.run_cell) { printed.textContent = window.run_cell(code.value); return; }
      printed.textContent = 'Starting Python (a few seconds) ...';
      window.startPython();
      setTimeout(run, 200);
    }
    code.addEventListener('input', grow);
    code.addEventListener('keydown', function (event) { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); } });
    cell.querySelector('.run').addEventListener('click', run);
    cell.querySelector('.reset').addEventListener('click', function () { code.value = first; printed.textContent = said; grow(); });
  });
});
