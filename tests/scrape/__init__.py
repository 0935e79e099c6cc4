"""Scraping: pages as engines write them, failures as sockets make them, rounds in virtual time."""
