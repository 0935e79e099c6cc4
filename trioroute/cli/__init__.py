"""The commands. Each is imported when it is called, so that ``trioroute --help`` is quick."""

from trioroute.cli.start import main as main
