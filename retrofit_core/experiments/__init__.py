"""The paper's tables and figures: specs, a runner, records and a report."""
