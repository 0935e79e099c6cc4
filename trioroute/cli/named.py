"""A choice of names that answers a mistyped one with the nearest."""

from typing import TYPE_CHECKING, Any

import click

from trioroute.nearest import hint

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # click 8.1 has no parameter there
    _Choice = click.Choice


class Named(_Choice):
    """As click's, which lists the names there are."""

    def convert(
        self,
        value: Any,  # noqa: ANN401  click's own
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = hint(str(value), [str(name) for name in self.choices])
            self.fail(f"{error.message.removesuffix('.')}{near}", param, ctx)
