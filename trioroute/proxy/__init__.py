"""The data port: takes a request, has it decided, relays the answer byte for byte.

May import everything below it; not ``scrape``, ``observe`` or ``discovery``, which ``serve`` wires.
``serving`` is HTTP towards clients, ``upstream`` HTTP towards replicas; neither knows of routing.
``bodies`` reads large request bodies in a process of its own.

One request: ``app`` -> ``passage`` (read, profile, choose) -> ``dispatch`` (one attempt, the gate)
-> ``relay`` (the first chunk and the end; ``pump`` passes on what is between). An ending is told
once, in a ``finally``, by ``ending``.
"""
