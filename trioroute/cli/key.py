"""``trioroute key``: API keys for clients, and tokens."""

import click

from trioroute.settings import BadValue, new_key
from trioroute.settings.api_keys import ApiKey, file_line, key_digest

EPILOG = """\b
Examples:
  trioroute key new team-a --project search
  trioroute key new team-b >> keys.txt      # the key itself is shown on the terminal only
"""


@click.command("key", epilog=EPILOG)
@click.argument("verb", type=click.Choice(["new"]))
@click.argument("name")
@click.option("--project", default="", help="Stands for the project header of its requests.")
def key_command(verb: str, name: str, project: str) -> None:
    """Make an API key for a client of the router.

    The key goes to stderr, once, and is kept nowhere. Its line for server.api_keys_file, which
    holds a hash only, goes to stdout.
    """
    key = new_key()
    try:
        line = file_line(ApiKey(name=name, sha256=key_digest(key), project=project))
    except BadValue as bad:
        raise click.UsageError(str(bad)) from None
    click.echo(f"the key of {name}, shown once: {key}", err=True)
    click.echo(line)
