"""Tests of the simulated replica: its model core in virtual time, the rest over real sockets."""
