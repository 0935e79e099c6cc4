"""``python -m trioroute`` is the command ``trioroute``."""

from trioroute.cli import main

main(prog_name="trioroute")
