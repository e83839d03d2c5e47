"""What explorers show besides models: measurements, grades, answers computed in advance.

- `asked_answers`: The predictor's answers to many questions;
- `measured_points`: Measurements that explorers lay over their models;
- `mtap_grades`: Grades of five tools by three readings, and the weight schemes of the survey draft;
- `panel`: Every tool on every source of measured rows;
- `pareto_fronts`: What a faster answer costs, as `predict recommend` has it;
- `planned_steps`: Training plans as `predict training` answers them;
"""
