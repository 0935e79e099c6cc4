"""The folds: fleet, tally, digest, and that any log can be folded."""
