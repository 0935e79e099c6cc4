"""Routing policies in virtual time: engines, clients and faults modelled, the router the real one.

May import the dry core, ``settings`` and ``eventlog``; no Trio, no wall clock, no proxy. Time is
an integer of nanoseconds on a heap of (time, order); chance comes from ``random.Random`` seeded
with texts, and no set is ever walked: the same seed gives the same bytes.
"""
