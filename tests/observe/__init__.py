"""Tests of trioroute.observe."""
