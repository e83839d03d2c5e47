// Search: chapters come before notebooks, lists come last, and words that mean the same are one question. Sphinx puts this file behind its own search (into language_data.js).
var Scorer = {
  score: function (result) {
    var page = result[0], last = /^(bibliography|evaluation_log|notebooks_index)$/.test(page);
    return result[4] - (page.indexOf('notebooks/') === 0 ? 100 : last ? 10 : 0);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
var SAME = [
  ['cost', 'price', 'dollars'], ['quantization', 'quantisation', 'quantized', 'fp8'], ['latency', 'time'], ['ttft', 'first token'], ['tpot', 'output token', 'per token'],
  ['throughput', 'tokens per second', 'rate'], ['moe', 'mixture of experts', 'experts'], ['energy', 'joules', 'power'], ['nccl', 'all-reduce', 'collective'],
  ['confidence', 'interval', 'uncertainty'], ['accuracy', 'error'], ['parallelism', 'shard', 'sharding', 'tensor parallel'], ['oom', 'fits', 'out of memory'],
  ['matmul', 'gemm', 'matrix product'], ['speculative', 'draft'], ['disaggregation', 'disaggregated'], ['pim', 'processing in memory'], ['gpu', 'device'],
  ['reproduce', 'check it yourself'], ['install', 'make book']
];
function widen() {
  if (location.protocol === 'file:') DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;  // a page from a file may not read the others for their first lines
  var plain = Search._performSearch;
  Search._performSearch = function (query) {
    var found = plain.apply(Search, arguments), words = ' ' + query.toLowerCase().trim() + ' ', seen = {};
    found.forEach(function (one) { seen[one[0]] = true; });
    SAME.forEach(function (group) {
      var asked = group.filter(function (word) { return words.indexOf(' ' + word + ' ') >= 0; });
      if (asked.length !== 1) return;
      group.forEach(function (other) {
        if (other === asked[0]) return;
        plain.apply(Search, Search._parseQuery(words.replace(' ' + asked[0] + ' ', ' ' + other + ' ').trim())).forEach(function (one) {
          if (seen[one[0]]) return;
          seen[one[0]] = true; one[4] -= 4; found.push(one);
        });
      });
    });
    Search._parseQuery(query);  // the words to mark are those that were asked
    return found.sort(function (a, b) { return a[4] - b[4]; });  // the best comes last
  };
}
widen();
