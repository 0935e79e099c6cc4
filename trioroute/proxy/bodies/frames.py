"""What the router and its body reader say to each other over their socket.

A question: two lengths, the question as JSON, the body as it is. An answer: one length, JSON. An
answer of no bytes is the child's first word: it is ready. JSON of the standard library, because a
model's name may hold a lone surrogate, which orjson takes for no text at all.
"""

import struct

import attrs
from cattrs.preconf.json import make_converter

from trioroute.proxy.bodies.facts import Facts, Nameless, Question
from trioroute.proxy.errors import RouterError

QUESTION = struct.Struct("!IQ")
ANSWER = struct.Struct("!I")
ANSWER_BYTES_MAX = 1 << 20
"""512 blocks, a few digests and names take a hundredth of it. More is no answer of ours."""

READY = ANSWER.pack(0)

Found = Facts | Nameless | RouterError


@attrs.frozen(slots=True)
class Answer:
    """``leaves``: the child ends behind it, for its memory has grown."""

    found: Found
    leaves: bool = False


_converter = make_converter(detailed_validation=False, omit_if_default=True)
_converter.register_unstructure_hook(bytes, lambda value: value.decode("latin-1"))
_converter.register_structure_hook(bytes, lambda value, _: value.encode("latin-1"))


def pack_question(question: Question, size: int) -> bytes:
    """Everything before the body, which has ``size`` bytes. Only headers that matter go along."""
    pins = question.settings.pins
    asked = (*pins.session_headers, pins.project_header)
    wanted = {b"content-type", b"content-encoding"} | {name.encode("latin-1") for name in asked}
    headers = [pair for pair in question.headers if pair[0] in wanted]
    words = _converter.dumps(attrs.evolve(question, headers=headers)).encode()
    return QUESTION.pack(len(words), size) + words


def unpack_question(words: bytes) -> Question:
    return _converter.loads(words, Question)


def pack_answer(answer: Answer) -> bytes:
    words = _converter.dumps(answer).encode()
    return ANSWER.pack(len(words)) + words


def unpack_answer(words: bytes) -> Answer:
    """Raises ValueError for anything but an answer."""
    try:
        return _converter.loads(words, Answer)
    except Exception as error:  # of whatever kind: the words are not ours
        raise ValueError("not an answer of a body reader") from error
