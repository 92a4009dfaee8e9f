"""The frame of every page: navigation, run picker, error panel, style sheet."""
