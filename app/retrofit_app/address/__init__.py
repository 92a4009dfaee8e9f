"""What a page shows according to its address: one pure rule, and the session's side."""
