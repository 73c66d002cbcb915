"""Pictures: the only place where matplotlib is imported."""
