"""Commands that build, check and publish the repository.

- `book`: Run what is out of date and build the pages (make book)
- `build`: Run the notebooks that are out of date (make book does this, then builds the pages)
- `claims`: Check every printed number of the five documents
- `notebook`: Prepare a notebook for the repository:
- `paper`: Set the article and the artifact appendix as PDF (make paper)
- `pdf`: Print the book as one PDF (make pdf)
- `trials`: Install other tools live as their instructions say, and time the way to a first prediction (needs the network)
"""
