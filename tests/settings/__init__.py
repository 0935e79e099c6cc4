"""The settings: what is taken, what is refused, and how it is told."""
