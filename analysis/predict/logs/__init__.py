"""What did a run measure, and what does its log say of the question? Logs of other people's tools as rows of our case commands.

- `log`: A log as rows, and how lines and JSON are read within bounds
- `served`: Benchmark clients of servers: vLLM, SGLang, AIPerf, genai-perf, InferenceX
- `trained`: Training logs: Megatron-LM, NeMo, torchtitan, MLPerf; and the text of nccl-tests
- `read`: Whose log is it? Every reader in one table; CSV of one's own points
"""
