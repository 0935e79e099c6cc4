"""``python -m tests.bench``: what ``tools/bench`` runs."""

from tests.bench.command import main

main()
