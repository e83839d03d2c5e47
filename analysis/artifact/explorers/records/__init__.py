"""What explorers show besides models: measurements, grades, answers computed in advance.

- `asked_answers`: The predictor's answers to many questions;
- `best_mappings`: The best mapping of each product in the mapping game, searched to the end
- `claim_verdicts`: The claims of the five documents and their verdicts;
- `measured_points`: Measurements that explorers lay over their models;
- `mtap_grades`: Grades of five tools by three readings, and the weight schemes of the survey draft;
- `planned_steps`: Training plans as `predict training` answers them;
"""
