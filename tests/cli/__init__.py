"""Tests of the commands that have no package of their own."""
