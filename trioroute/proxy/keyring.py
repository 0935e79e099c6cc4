"""Client API keys: who asks, what they may still ask, and what of it never goes on (HTTP.md)."""

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

import attrs

from trioroute.counted import plural
from trioroute.proxy.errors import RouterError
from trioroute.proxy.headers import RawHeaders
from trioroute.settings import ApiKey

MINUTE_MS = 60_000
_NOBODY = "0" * 64
UNAUTHENTICATED = RouterError(
    "invalid_api_key",
    "this router needs an API key of its own: send it as Authorization: Bearer KEY or x-api-key",
)
UNKNOWN = RouterError(
    "invalid_api_key",
    "the API key sent is not known to this router: it is mistyped, of another server, or revoked",
)


@attrs.define
class Use:
    """What one key has under way, and how many requests it has left (``left_m``, thousandths)."""

    in_flight: int = 0
    left_m: int = 0
    filled_ms: int | None = None


@attrs.define
class Keyring:
    """Empty: no keys are asked for, and everybody is nobody."""

    _keys: dict[str, ApiKey] = attrs.field(factory=dict, repr=False)
    _use: dict[str, Use] = attrs.field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def renew(self, keys: Iterable[ApiKey]) -> None:
        """Other keys from now on; what runs under an old one is still counted under its name."""
        self._keys = {key.sha256: key for key in keys}
        names = {key.name for key in self._keys.values()}
        for name in [name for name, use in self._use.items() if name not in names]:
            if not self._use[name].in_flight:
                del self._use[name]

    def whose(self, headers: RawHeaders) -> ApiKey | None:
        """The key that a request came with.

        The table is asked for the hash, which nobody can steer towards that of a key, so what time
        the look-up takes tells nothing; the hash found is compared in constant time all the same.
        """
        for value in _sent(headers):
            found = self._find(value)
            if found is not None:
                return found
        return None

    def _find(self, value: bytes) -> ApiKey | None:
        told = hashlib.sha256(value).hexdigest()
        found = self._keys.get(told)
        same = hmac.compare_digest(told, _NOBODY if found is None else found.sha256)
        return found if same else None

    def enter(self, key: ApiKey, now_ms: int) -> RouterError | None:
        """Count a request in, or tell why it is one too many. Whoever is in must ``leave``."""
        use = self._use.setdefault(key.name, Use())
        if key.max_in_flight and use.in_flight >= key.max_in_flight:
            text = f"the key {key.name} has as many requests under way as it may: {use.in_flight}"
            return RouterError("rate_limited", text, None, 1)
        if key.requests_per_minute:
            wait_s = _take(use, key.requests_per_minute, now_ms)
            if wait_s:
                text = (
                    f"the key {key.name} may ask {plural(key.requests_per_minute, 'time')} a minute"
                )
                return RouterError("rate_limited", text, None, wait_s)
        use.in_flight += 1
        return None

    def leave(self, key: ApiKey) -> None:
        self._use[key.name].in_flight -= 1

    def without_keys(self, query: bytes) -> bytes:
        """A query string without the parameters whose value is one of the keys."""
        if not self._keys or not query:
            return query
        kept = [
            part
            for part in query.split(b"&")
            if self._find(unquote_plus(part.partition(b"=")[2].decode("latin-1")).encode()) is None
        ]
        return b"&".join(kept)


def _sent(headers: RawHeaders) -> Iterator[bytes]:
    for name, value in headers:
        if name == b"authorization":
            scheme, _, value = value.partition(b" ")
            if scheme.lower() != b"bearer":
                continue
        elif name != b"x-api-key":
            continue
        if value := value.strip():
            yield value


def stranger(headers: RawHeaders) -> RouterError:
    """What somebody is told whose headers have no key of ours; a key that was sent is not told."""
    return UNAUTHENTICATED if next(_sent(headers), None) is None else UNKNOWN


def _take(use: Use, per_minute: int, now_ms: int) -> int:
    """Take one request out of the minute's; else the seconds until there is one again.

    A bucket of a minute's requests that fills evenly: no burst at the turn of a minute.
    """
    full_m = per_minute * 1000
    if use.filled_ms is None:
        use.left_m = full_m
    else:
        gained_m = max(0, now_ms - use.filled_ms) * full_m // MINUTE_MS
        use.left_m = min(full_m, use.left_m + gained_m)
    use.filled_ms = now_ms
    if use.left_m >= 1000:
        use.left_m -= 1000
        return 0
    wait_ms = (1000 - use.left_m) * MINUTE_MS // full_m
    return wait_ms // 1000 + 1
