"""The SETTINGS of an HTTP/2 client, as far as this server goes along with them."""

from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from hpack import Encoder

TABLE_BYTES = 4096
"""Of the header table that answers are written by: what every client has (RFC 9113 section 6.5.2).
One may offer 4 GiB, and h2 would take it: hpack searches the table for each header of an answer."""


class PeerSettings(Settings):
    """Settings without a meaning are ignored (RFC 9113 section 6.5.2); h2 keeps all 65,536."""

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        if key in KNOWN:
            super().__setitem__(key, value)


class AnswerEncoder(Encoder):
    """An encoder may use less of the table than was offered (RFC 7541 section 4.2).

    And of the sizes since the last answer it tells the least and the last, where hpack tells all of
    them, or none when the last was set twice.
    """

    @property
    def header_table_size(self) -> int:
        """Of the table, in bytes; at most TABLE_BYTES."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        size = min(value, TABLE_BYTES)
        if size != self.header_table.maxsize:
            least = min([*self.table_size_changes, size])
            self.header_table.maxsize = size
            self.table_size_changes = [least] if least == size else [least, size]


KNOWN = frozenset(map(int, SettingCodes))


def bound(connection: H2Connection) -> None:
    """Of a server, before its first byte."""
    connection.remote_settings = PeerSettings(client=True)
    connection.encoder = AnswerEncoder()
