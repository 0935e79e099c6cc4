"""Large request bodies, read off the event loop.

Reading a prompt of 20 MB takes 150 ms and the interpreter's lock, so a thread would hold every
stream up as well. ``facts`` is the reading, one pure function. ``reader`` calls it inline for small
bodies and gives large ones to a process of its own, the body reader: ``child`` is that process,
``process`` the router's end of it, ``frames`` what goes over the socket between them.
"""
