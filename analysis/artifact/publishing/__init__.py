"""Notebook runner, figures and tables with provenance, numbers for prose, the book.

- `archive`: One file for a deposit: sources, results, book, PDFs and their provenance
- `book`: Builds the pages of the book from the chapters and the results, and puts them in place in one step
- `build`: Runs the notebooks that are out of date, one more at once than there are cores, and keeps what was good when one fails
- `execute`: Runs one notebook through papermill, in the shell of a process forked with the imports done
- `looks`: How the book's figures look beside the theme: legible type, heatmaps whose numbers can be read
- `package`: The data package:
- `pages`: The Sphinx extension of the book:
- `paper`: The article and the artifact appendix:
- `paper_latex`: How LaTeX, in the form of ACM's class, writes each kind of node of the article
- `paper_typst`: How Typst does, from which the PDF is made
- `pdf`: One PDF of the whole book:
- `plan`: What a build has to do:
- `run`: One run of a notebook:
- `schemas`: JSON Schemas of the files that commands read, made from the models that read them;
- `trace`: What a notebook really used:
- `words`: Words for readers in place of the data's keys
- `warm`: Notebooks without waiting for imports:
- `fetching/`: Datasets of others: `fetch` (what `make data` does), `download` (to an announced size and checksum), `wheel` (a dataset ...
"""
