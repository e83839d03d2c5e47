"""What explorers show besides models: measurements, answers computed in advance.

- `asked_answers`: The predictor's answers to many questions;
- `asked_grid`: Many questions of `predict one` at once, for the table that the explorer shows
- `measured_points`: Measurements that explorers lay over their models;
- `panel`: Every tool on every source of measured rows;
- `pareto_fronts`: What a faster answer costs, as `predict recommend` has it;
- `planned_steps`: Training plans as `predict training` answers them;
- `roofline_steps`: Step times of the scheduler player;
"""
