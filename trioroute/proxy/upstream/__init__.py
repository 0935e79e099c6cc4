"""HTTP towards replicas: an httpx transport of our own over Trio sockets, and one pool a replica.

``transport`` is the way in, ``error`` says in closed words what can go wrong. Imports nothing else
of trioroute.
"""
