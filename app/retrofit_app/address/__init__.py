"""What a page shows, as its address says it: one pure rule, neurons as text, and the session's side."""
