"""What ``trioroute demo`` runs: simulated replicas, the router and a little traffic, as processes.

Stands beside ``cli``: it uses the commands and the API as a user would, and imports nothing of the
router; of ``eventlog`` only whether somebody writes a log.
"""
