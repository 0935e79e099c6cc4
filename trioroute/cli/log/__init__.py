"""``trioroute log``: looking after a log. One file a command."""
