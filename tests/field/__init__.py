"""Faults that operators of routers reported, each as a test from outside (README.md)."""
