"""Tests of trioroute and eventlog; the tree mirrors the packages."""
