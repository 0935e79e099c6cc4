"""Below the waterline: what keeps the same past from ever giving another decision."""

import ast
from collections.abc import Iterable, Iterator

from tests.house.source import Source, imports, own_part, part_of

ORDER = ("events", "projections", "policy", "router")
CODEC = "trioroute/events/codec.py"
FLAT = "trioroute/events/flat.py"
_SHAPES = {"collections", "collections.abc", "typing", "enum"}
STANDARD = frozenset(
    _SHAPES | {"base64", "itertools", "operator", "functools", "bisect", "heapq", "hashlib", "zlib"}
)
FORBIDDEN_NAMES = frozenset(
    ("time", "random", "uuid", "os", "socket", "threading", "trio", "httpx", "logging")
)
# ``hash`` of a text differs from process to process, ``id`` from run to run.
FORBIDDEN_CALLS = frozenset(
    ("hash", "id", "open", "print", "input", "eval", "exec", "__import__", "complex")
)
_SET_TYPES = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_BUILDS = {"list", "tuple", "dict", "deque", "fromkeys", "join", "extend"}
_WALKS = {"iter", "next", "enumerate", "zip", "map", "filter", "reversed", "islice", "chain"}
_TAKES_ORDER = frozenset(_BUILDS | _WALKS | {"from_iterable"})


def foreign_imports(source: Source) -> Iterator[str]:
    """Imports of anything but lower dry code, attrs, structs, the codec's, and a short list."""
    own = own_part(source)
    for node, module in imports(source):
        allowed = {"attrs", *STANDARD}
        if own in ("events", "policy"):
            allowed |= {"msgspec", "msgspec.structs"}  # structs
        if source.where == CODEC:
            allowed |= {"cattrs", "cattrs.errors", "cattrs.fns", "cattrs.gen", "orjson"}
        if source.where == FLAT:
            allowed.add("msgspec.json")
        if own == "router":
            # attrs and nothing else: what the log is offered, and how it refuses
            allowed |= {"eventlog.record", "eventlog.errors"}
        if module in allowed:
            continue
        if not module.startswith("trioroute.") or part_of(module) not in ORDER:
            yield source.found(node, f"imports {module}, which is not dry")
        elif ORDER.index(part_of(module)) > ORDER.index(own):
            yield source.found(node, f"imports {module} upwards")


def forbidden_names(source: Source) -> Iterator[str]:
    """Clock, chance, I/O and process-dependent values."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield source.found(node, f"uses the name {node.id}")
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in FORBIDDEN_CALLS:
                yield source.found(node, f"calls {called}")


def floats(source: Source) -> Iterator[str]:
    """Float literals, true division, and ``float`` for anything but turning one away."""
    asked = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and _called(node) == "isinstance"
        for inner in ast.walk(node)
    }
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            yield source.found(node, f"has the float {node.value}")
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            yield source.found(node, "divides with /, which gives a float")
        if isinstance(node, ast.Name) and node.id == "float" and id(node) not in asked:
            yield source.found(node, "uses float")


def suspensions(source: Source) -> Iterator[str]:
    """Anything that could suspend between a decision and its reservation."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await) or (
            isinstance(node, ast.comprehension) and node.is_async
        ):
            yield source.found(node, f"is asynchronous ({type(node).__name__})")


def set_iterations(source: Source, attributes: frozenset[str] = frozenset()) -> Iterator[str]:
    """Places where the order of a set would show. ``attributes`` are fields known to be sets.

    ``sorted``, ``min``, ``max``, ``sum``, ``len``, ``any``, ``all`` and ``in`` do not show it.
    """
    names = attributes | _set_names(source.tree)
    for node in ast.walk(source.tree):
        for ordered in _ordered(node):
            if _is_set(ordered, names):
                yield source.found(ordered, "takes a set in its order")


def set_attributes(sources: Iterable[Source]) -> frozenset[str]:
    """Fields of classes that are annotated as sets, in any of ``sources``."""
    return frozenset(
        line.target.id
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and _says_set(line.annotation)
    )


def _ordered(node: ast.AST) -> list[ast.expr]:
    """The expressions whose order this node takes over."""
    match node:
        case ast.For() | ast.comprehension():
            return [node.iter]
        case ast.Starred() | ast.YieldFrom():
            return [node.value]
        case ast.Assign(targets=[ast.Tuple() | ast.List()]):
            return [node.value]
        case ast.Call(func=ast.Attribute(attr="pop")) if not node.args:
            return [node.func.value] if isinstance(node.func, ast.Attribute) else []
        case ast.Call() if _called(node) in _TAKES_ORDER:
            return list(node.args)
    return []


def _is_set(node: ast.expr, names: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name():
            return node.id in names
        case ast.Attribute():
            return node.attr in names
        case ast.Call():
            return _called(node) in {"set", "frozenset"} | _SET_METHODS
        case ast.BinOp() if isinstance(node.op, _SET_OPERATORS):
            return any(_is_set(side, names) or _is_keys(side) for side in (node.left, node.right))
        case ast.IfExp():
            return _is_set(node.body, names) or _is_set(node.orelse, names)
    return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _called(node) in {"keys", "items"}


def _set_names(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign() if _is_set(node.value, frozenset()):
                found.update(name for target in node.targets if (name := _name(target)))
            case ast.AnnAssign() if _says_set(node.annotation):
                found.add(_name(node.target))
            case ast.arg() if node.annotation is not None and _says_set(node.annotation):
                found.add(node.arg)
    return frozenset(found - {""})


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _says_set(annotation: ast.expr) -> bool:
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _name(outer) in _SET_TYPES


def _called(node: ast.Call) -> str:
    return _name(node.func)
