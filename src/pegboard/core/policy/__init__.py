"""What may run: rules, approvals, grants, budgets and taint."""
