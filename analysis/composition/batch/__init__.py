"""How long does an offline batch take on an accelerator and a framework, and how sure is that?

cases (what a row says) -> model (prefill and decode from data sheets and a few fitted shares) -> fit -> answers; study scores it with the
judged device left out.
"""
