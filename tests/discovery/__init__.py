"""Discovery: lists, outages, and what they do to a fleet."""
