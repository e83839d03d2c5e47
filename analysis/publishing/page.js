// On every page: names for buttons that the theme leaves without one, charts in the page's colours, room for charts on phones.
document.documentElement.classList.add('js-on');
// What scrolls sideways can be reached by keyboard, and nothing else stops there.
function reachable() {
  document.querySelectorAll('.table-scroll, article table.table:not(.result), article .math, article mjx-container, article pre, .interactive, .cell_output, figure').forEach(function (d) {
    var scrolls = d.scrollWidth > d.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(d).overflowX);
    if (!scrolls) { d.removeAttribute('tabindex'); return; }
    d.setAttribute('tabindex', '0');
    if (d.classList.contains('table-scroll')) { 
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
    if (heads.length < 4) return;
    t.classList.add('cards');
    t.querySelectorAll('tbody tr').forEach(function (r) {
      Array.prototype.forEach.call(r.cells, function (c, k) {
        var whole = document.createElement('div');  // beside the title stands one element, whatever the cell holds
        whole.append.apply(whole, c.childNodes);
        if (whole.textContent.trim()) { c.replaceChildren(whole); c.setAttribute('data-label', heads[k]); } else c.replaceChildren();
      });
    });
  });
  reachable();
  window.addEventListener('resize', reachable);
});
window.addEventListener('load', function () {
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
        if (d._fullLayout.showlegend) { change['legend.orientation'] = 'h'; change['legend.x'] = 0; change['legend.y'] = -0.28; change['legend.xanchor'] = 'left'; change['legend.yanchor'] = 'top'; }
        if (d._fullLayout.height < 460) { change.height = 460; d.parentElement.style.height = '460px'; }  // its box, too, or the chart scrolls in it
      }
      window.Plotly.relayout(d, change).then(reachable);
    });
  }
  paint(); reachable();
  if (window.MathJax && window.MathJax.startup) window.MathJax.startup.promise.then(reachable);
  new MutationObserver(paint).observe(document.documentElement, {attributes: true, attributeFilter: ['data-theme']});
});
window.addEventListener('beforeprint', function () {
  document.querySelectorAll('details:not([open])').forEach(function (d) { d.open = true; });
});
