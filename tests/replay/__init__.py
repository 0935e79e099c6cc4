"""Tests of replay: logs made by the real router, told and proved again."""
