"""The front door: one question, a file of cases, a program, a recommendation, a comparison with a log.

- `program/`: How long does a StableHLO program take on a device? From its operators to a sum, by fidelity
- `logs/`: What did a run measure, and what does its log say of the question?
- `compare`: A log's points beside the predictor's answers, which part explains them, and what a site's constants are
- `interface`: The one interface of every predictor of the book: time = f(workload, hardware; parameters), the form of ...
- `recommend/`: Which plan meets a target at least cost?
"""
