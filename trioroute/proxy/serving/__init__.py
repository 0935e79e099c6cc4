"""HTTP towards clients: hypercorn's worker over lean HTTP/1.1 connections of our own.

``server`` is the way in; an application is written once against ``asgi``: it gets the whole body,
and is cancelled when its client is gone, on every protocol. Imports nothing else of trioroute.
"""
