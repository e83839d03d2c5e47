"""What replaces compiled libraries and files in the page, as far as the explorers' models need them; never imported by CPython.

- `checkable`: Stands for `analysis.studies.checkable` in the page:
- `compiled`: Stands for `analysis.compiled` in the page:
- `errors`: Stands for `analysis.errors` in the page:
- `files`: Stands for `analysis.configs` and `analysis.paths` in the page:
- `library`: Stands for what models take of typing, collections.abc, dataclasses, functools, fnmatch and html in the page;
- `numpy`: Stands for numpy in the page:
- `numpy_typing`: Stands for numpy.typing in the page
- `page`: In the browser:
- `pydantic`: Stands for pydantic in the page:
- `re`: Stands for re in the page: the browser's own expressions;
- `serving_types`: Stands for the serving modules around the event loop in the page:
- `unused`: Stands for `yaml`, `analysis.tables` and `analysis.workloads.checkpoints` in the page, which reads no files;
"""
