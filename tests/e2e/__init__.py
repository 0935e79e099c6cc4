"""Tests over real processes and real sockets."""
