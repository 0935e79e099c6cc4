"""``./tools/bench``: trioroute beside other proxies, in one alternating run. See BENCH.md."""
