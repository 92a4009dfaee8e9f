"""What stands around every page: navigation, the run picker, the panel for what goes wrong, the style sheet."""
