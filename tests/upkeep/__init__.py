"""Tests of what a running router does for its log."""
