"""trioroute: a router for LLM replicas that can explain every decision it ever took.

Floors, from the ground up; imports point downwards only (tests/house/test_waterline.py walks them):

    events, eventlog, settings · projections · policy · router, scrape, observe · proxy · replay, serve · cli

Below the waterline (events, projections, policy, router) there is no clock, no chance, no I/O, no float, no
``async`` and no iteration over a set, so that the same past always gives the same decision.
"""

__version__ = "0.1.0"
