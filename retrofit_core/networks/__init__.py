"""Networks: how they are traced, cut into levels, built, read from files, and what their neurons may be exchanged for."""
