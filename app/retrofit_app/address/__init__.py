"""What a page shows according to its address: one pure rule, neurons as text, and the session's side."""
