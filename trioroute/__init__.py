"""trioroute: a router for LLM replicas that can explain every decision it ever took.

Floors, from the ground up; imports point downwards only, and a test walks them:

    eventlog, events · settings, projections · policy · router · recovery, scrape, observe, engine
    · proxy · replay · assembly · serve, demo · cli

Below the waterline (events, projections, policy, router) there is no clock, no chance, no I/O, no
float, no ``async`` and no iteration over a set: the same past always gives the same decision.
"""

__version__ = "0.1.0"
