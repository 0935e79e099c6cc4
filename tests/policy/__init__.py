"""Every rule of RULES 2 to 6, named and proven."""
