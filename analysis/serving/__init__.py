"""Serving of large language models: requests, schedulers, KV cache, step time, event loop."""
