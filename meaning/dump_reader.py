"""Reads a dump of the compiler's IR (`passes_dump/NN_after_X.py`) into an `IrProgram`.

A dump is Python text. `ast` parses it; no part of it is imported or executed. A dump may be hostile, so the size of the
file and the depth of its expressions are bounded. Each function is parsed separately. If one is not understood, only
that function is lost: its `problem` names the file and the line.

The reader accepts the spellings of all dumps since February 2026:

- memory references `MemRef(base, offset, size)`, and the older `MemRef(space, address, size, id)`;
- spaces `Mem.Vec` and `MemorySpace.Vec`; pads `PadValue` and `TilePad`; `split=` beside `optimizations=`;
- operations named `tile.`, and the older `block.`;
- operations named like keywords of Python, with an underscore at the end or without.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from .ir import (
    Assign,
    Call,
    Cast,
    Constant,
    Definition,
    DumpLine,
    ElementType,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    IrProgram,
    ItemList,
    Jump,
    MeaningError,
    MemoryReference,
    MemorySpace,
    NamedConstant,
    Operator,
    OtherType,
    Parameter,
    ParameterDirection,
    Return,
    ScalarType,
    Scope,
    Statement,
    Subscript,
    TensorType,
    TileType,
    Type,
    Variable,
    While,
    Yield,
)

MAX_BYTES = 16 << 20
"""A larger dump is an error, so that a hostile one does not fill the memory."""

MAX_DEPTH = 60
"""Deeper nesting in one statement is an error. The compiler's own dumps stay below 20."""

_FUNCTION = re.compile(r"^[ \t]*@\w+\.function\b", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+):", re.MULTILINE)
_DIMENSION = re.compile(r"^(\w+) = \w+\.dynamic\(", re.MULTILINE)
_SILENT_LINES = re.compile(r"^[ \t]*(#.*)?\n", re.MULTILINE)
"""Lines that say nothing: comments and empty ones."""
_KEYWORD_OPERATION = re.compile(r"\.(and|or|not)\(")
"""The names of these operations are keywords. Python cannot parse them, so the reader adds an underscore."""

_CALLED_OPERATORS = {"min", "max", "abs"}
"""A dump writes these scalar operators as calls."""
_DTYPES = {each.label: each for each in ElementType} | {
    "BF16": ElementType.BFLOAT16,
    "FP8E4M3": ElementType.FP8E4M3FN,
}
_MEMORY_SPACES = {each.value: each for each in MemorySpace}
_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_UNARY: Mapping[type[ast.unaryop], str] = {ast.USub: "neg", ast.Not: "not", ast.Invert: "~"}
_LOOPS = {"range", "parallel", "pipeline", "unroll", "spmd", "split_aiv"}
"""`execution` can run these kinds of loops. Another kind may run in another order, and is not understood."""


class _NotUnderstoodError(Exception):
    """The reader does not understand a node. `line` is its line in the text that Python parsed."""

    def __init__(self, node: ast.AST, problem: str) -> None:
        super().__init__(problem)
        self.line = getattr(node, "lineno", 1)
        self.problem = problem


def read_dump(path: Path) -> IrProgram:
    """Read the dump in a file. Raises `MeaningError` if the file is no dump at all."""
    return read_program(read_text(path), path.name)


def read_text(path: Path) -> str:
    """Return the text of a dump. Raises `MeaningError` if the file is too large, or is no text."""
    place = DumpLine(path.name, 1)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise MeaningError(place, f"expected a readable dump, found {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise MeaningError(place, f"expected a dump of at most {MAX_BYTES} bytes, found a larger file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise MeaningError(place, f"expected UTF-8, found byte {content[error.start]:#x}") from None


def hash_text(text: str) -> str:
    """Return a hash of a dump's text without its comments and empty lines. Equal programs have equal hashes."""
    return sha256(_SILENT_LINES.sub("", text).encode()).hexdigest()


def read_program(text: str, file: str) -> IrProgram:
    """Read the text of a dump. `file` is its name in errors. Raises `MeaningError` if the text has no functions."""
    text = _KEYWORD_OPERATION.sub(r".\1_(", text)
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    if not starts:
        raise MeaningError(DumpLine(file, 1), "expected functions of the IR, found none")
    header = text[: starts[0]]
    name = _CLASS.search(header)
    functions: dict[str, Function] = {}
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        function = _read_function(text[start:end], file, text.count("\n", 0, start) + 1)
        functions[function.name] = function
    return IrProgram(
        name=name[1] if name else "",
        file=file,
        functions=functions,
        dimensions=frozenset(_DIMENSION.findall(header)),
    )


def _read_function(text: str, file: str, first_line: int) -> Function:
    head = re.search(r"^[ \t]*def (\w+)\(", text, re.MULTILINE)
    name = head[1] if head else f"function at line {first_line}"
    place = DumpLine(file, first_line + (text.count("\n", 0, head.start()) if head else 0))
    reader = _FunctionReader(file, first_line)
    try:
        indent = len(text) - len(text.lstrip(" \t"))
        # Python cannot parse indented text alone, so `if 1:` precedes it. Other text gets an empty line, so line
        # numbers agree.
        module = ast.parse(f"if 1:\n{text}" if indent else f"\n{text}")
        body = module.body[0]
        node = body.body[0] if isinstance(body, ast.If) else body
        if not isinstance(node, ast.FunctionDef):
            raise _NotUnderstoodError(node, "expected a function")
        return reader.read(node, place)
    except _NotUnderstoodError as error:
        problem = MeaningError(_dump_line(file, first_line, error.line), error.problem)
    except SyntaxError as error:
        line = _dump_line(file, first_line, error.lineno or 2)
        problem = MeaningError(line, f"expected Python, found {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        problem = MeaningError(place, f"expected Python, found {str(error) or 'too much nesting'}")
    return Function(name=name, role="", parameters=(), body=(), attributes={}, place=place, problem=problem)


def _dump_line(file: str, first_line: int, parsed_line: int) -> DumpLine:
    """Return the line of a dump for a line number from Python.

    The function's text begins at Python's line 2, which is `first_line` of the dump.
    """
    return DumpLine(file, first_line + parsed_line - 2)


class _FunctionReader:
    """Reads one function. Each method raises `_NotUnderstoodError` at the first node that it does not understand."""

    def __init__(self, file: str, first_line: int) -> None:
        self._file = file
        self._first_line = first_line

    def read(self, node: ast.FunctionDef, place: DumpLine) -> Function:
        args = node.args
        if args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg or args.defaults:
            raise _NotUnderstoodError(node, "expected positional parameters without defaults, found others")
        attributes: dict[str, Expression] = {}
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                attributes |= self._attributes(decorator.keywords)
        body: list[ast.stmt] = []
        for each in node.body:
            entries = _function_attributes(each)
            if entries is None:
                body.append(each)
            else:
                attributes |= self._entries(entries)
        role = attributes.get("type")
        return Function(
            name=node.name,
            role=role.last if isinstance(role, NamedConstant) else "",
            parameters=tuple(self._parameter(each) for each in args.args if each.arg != "self"),
            body=self._block(body),
            attributes=attributes,
            place=place,
        )

    def _place(self, node: ast.stmt) -> DumpLine:
        return _dump_line(self._file, self._first_line, node.lineno)

    def _parameter(self, node: ast.arg) -> Parameter:
        annotation = node.annotation
        direction = ParameterDirection.IN
        if isinstance(annotation, ast.Subscript):
            head = _dotted_name(annotation.value)
            if head in ("Out", "InOut"):
                direction = ParameterDirection(head)
                annotation = annotation.slice
        if annotation is None:
            raise _NotUnderstoodError(node, f"expected the type of the parameter {node.arg!r}, found none")
        return Parameter(node.arg, self._type(annotation), direction)

    # Statements

    def _block(self, nodes: list[ast.stmt]) -> tuple[Statement, ...]:
        return tuple(statement for node in nodes for statement in self._statement(node))

    def _statement(self, node: ast.stmt) -> Iterator[Statement]:
        place = self._place(node)
        match node:
            case ast.AnnAssign() | ast.Assign():
                yield self._assignment(node, place)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=ast.Call() as call) if _dotted_name(call.func) == "yield_":
                yield Yield((), self._expressions(call.args), place)
            case ast.Expr(value=value):
                yield Evaluate(self._expression(value), place)
            case ast.Return(value=value):
                yield Return(self._return_values(value), place)
            case ast.Break():
                yield Jump("break", place)
            case ast.Continue():
                yield Jump("continue", place)
            case _:
                yield self._compound(node, place)

    def _compound(self, node: ast.stmt, place: DumpLine) -> Statement:
        match node:
            case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
                raise _NotUnderstoodError(node, "expected a loop without `else`, found one")
            case ast.For():
                return self._loop(node, place)
            case ast.While(test=test, body=body):
                return While(
                    condition=self._expression(test),
                    carried=(),
                    initial=(),
                    body=self._block(body),
                    place=place,
                )
            case ast.If(test=test, body=body, orelse=otherwise):
                return If(self._expression(test), self._block(body), self._block(otherwise), place)
            case ast.With(items=[item], body=body):
                return self._scope(item, body, place)
            case _:
                raise _NotUnderstoodError(
                    node, f"expected a statement of the IR, found {type(node).__name__}"
                )

    def _assignment(self, node: ast.AnnAssign | ast.Assign, place: DumpLine) -> Statement:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                targets = (Definition(name, self._type(node.annotation)),)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                targets = (Definition(name),)
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                targets = tuple(Definition(each) for each in _variable_names(elements))
            case _:
                raise _NotUnderstoodError(
                    node, f"expected an assignment to variables, found {ast.unparse(node)[:60]}"
                )
        if isinstance(value, ast.Call) and _dotted_name(value.func) == "yield_":
            return Yield(targets, self._expressions(value.args), place)
        return Assign(targets, self._expression(value), place)

    def _return_values(self, value: ast.expr | None) -> tuple[Expression, ...]:
        if value is None:
            return ()
        return self._expressions(value.elts) if isinstance(value, ast.Tuple) else (self._expression(value),)

    def _loop(self, node: ast.For, place: DumpLine) -> Statement:
        call = node.iter
        kind = _dotted_name(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or kind not in _LOOPS | {"while_"}:
            raise _NotUnderstoodError(node, f"expected a loop of the IR, found {ast.unparse(call)[:60]}")
        attributes = self._attributes(call.keywords)
        values = attributes.pop("init_values", ItemList(()))
        initial = values.elements if isinstance(values, ItemList) else (values,)
        if kind == "while_":
            first, *body = node.body
            if (
                not isinstance(first, ast.Expr)
                or not isinstance(first.value, ast.Call)
                or _dotted_name(first.value.func) != "cond"
                or len(first.value.args) != 1
            ):
                raise _NotUnderstoodError(
                    first, "expected the loop's condition `cond(...)`, with one argument"
                )
            elements = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            carried = _variable_names(elements)
            _check_initial_values(node, carried, initial)
            return While(
                condition=self._expression(first.value.args[0]),
                carried=carried,
                initial=initial,
                body=self._block(body),
                place=place,
            )
        variable, carried = _loop_targets(node.target)
        _check_initial_values(node, carried, initial)
        start, stop, step = _loop_bounds(node, self._expressions(call.args))
        return For(
            variable=variable,
            kind=kind,
            start=start,
            stop=stop,
            step=step,
            carried=carried,
            initial=initial,
            body=self._block(node.body),
            place=place,
            attributes=attributes,
        )

    def _scope(self, item: ast.withitem, body: list[ast.stmt], place: DumpLine) -> Scope:
        call = item.context_expr
        if not isinstance(call, ast.Call):
            raise _NotUnderstoodError(call, f"expected a scope of the IR, found {ast.unparse(call)[:60]}")
        task = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else None
        return Scope(
            kind=_dotted_name(call.func),
            operands=self._expressions(call.args),
            attributes=self._attributes(call.keywords),
            body=self._block(body),
            place=place,
            task=task,
        )

    # Expressions

    def _expressions(self, nodes: list[ast.expr], depth: int = 0) -> tuple[Expression, ...]:
        return tuple(self._expression(node, depth) for node in nodes)

    def _attributes(self, keywords: list[ast.keyword], depth: int = 0) -> dict[str, Expression]:
        """Return the keyword arguments of a call, merged with the entries of `attrs={...}`."""
        attributes: dict[str, Expression] = {}
        for keyword in keywords:
            if keyword.arg == "attrs" and isinstance(keyword.value, ast.Dict):
                attributes |= self._entries(keyword.value, depth)
            elif keyword.arg is None:
                raise _NotUnderstoodError(keyword, "expected named attributes, found `**`")
            else:
                attributes[keyword.arg] = self._expression(keyword.value, depth)
        return attributes

    def _entries(self, node: ast.Dict, depth: int = 0) -> dict[str, Expression]:
        entries: dict[str, Expression] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                found = "`**`" if key is None else ast.unparse(key)[:40]
                raise _NotUnderstoodError(value, f"expected an attribute's name, found {found}")
            entries[key.value] = self._expression(value, depth)
        return entries

    def _expression(self, node: ast.expr, depth: int = 0) -> Expression:
        depth += 1
        if depth > MAX_DEPTH:
            raise _NotUnderstoodError(node, f"expected at most {MAX_DEPTH} nested expressions, found more")
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return Constant(value)
            case ast.Name(id=name):
                return Variable(name)
            case ast.Attribute():
                return NamedConstant(_dotted_name(node))
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return ItemList(self._expressions(elements, depth))
            case ast.Subscript(value=value, slice=index):
                return Subscript(self._expression(value, depth), self._expression(index, depth))
            case ast.Call():
                return self._call(node, depth)
            case _:
                return self._operator(node, depth)

    def _operator(self, node: ast.expr, depth: int) -> Expression:
        match node:
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
                return Operator(_BINARY[type(operator)], self._expressions([left, right], depth))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return Constant(-value)
            case ast.UnaryOp(op=operator, operand=operand) if type(operator) in _UNARY:
                return Operator(_UNARY[type(operator)], (self._expression(operand, depth),))
            case ast.BoolOp(op=operator, values=values):
                word = "and" if isinstance(operator, ast.And) else "or"
                return Operator(word, self._expressions(values, depth))
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
                type(operator) in _COMPARISONS
            ):
                return Operator(_COMPARISONS[type(operator)], self._expressions([left, right], depth))
            case _:
                raise _NotUnderstoodError(
                    node, f"expected an expression of the IR, found {type(node).__name__}"
                )

    def _call(self, node: ast.Call, depth: int) -> Expression:
        name = _dotted_name(node.func)
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id == "self":
            operands, attributes = self._expressions(node.args, depth), self._attributes(node.keywords, depth)
            return Call(name, operands, attributes, is_function=True)
        if name == "const" and len(node.args) == 2:
            value = self._expression(node.args[0], depth)
            if isinstance(value, Constant):
                return Constant(value.value, self._dtype(node.args[1]))
        if name == "cast" and len(node.args) == 2:
            return Cast(self._expression(node.args[0], depth), self._dtype(node.args[1]))
        if name in ("submit", "spmd_submit") and node.args:
            callee, *arguments = node.args
            attributes = self._attributes(node.keywords, depth) | {"submitted": Constant(True)}
            return Call(
                _dotted_name(callee), self._expressions(arguments, depth), attributes, is_function=True
            )
        operands = self._expressions(node.args, depth)
        if name in _CALLED_OPERATORS:
            return Operator(name, operands)
        attributes = self._attributes(node.keywords, depth)
        if name.startswith("block."):
            # Older dumps spell the prefix of tile operations `block.` instead of `tile.`.
            name = "tile." + name.removeprefix("block.")
        # `tile.and_` is the operation `and`. The underscore is there because `and` is a keyword of Python.
        return Call(name.rstrip("_"), operands, attributes)

    # Types

    def _dtype(self, node: ast.expr) -> ElementType:
        name = _dotted_name(node).rpartition(".")[2]
        if name not in _DTYPES:
            raise _NotUnderstoodError(
                node, f"expected the type of an element, found {ast.unparse(node)[:40]}"
            )
        return _DTYPES[name]

    def _type(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Subscript):
            head = _dotted_name(node.value)
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if head == "Scalar":
                return ScalarType(self._dtype(parts[0]))
            if head in ("Tensor", "DistributedTensor", "Tile"):
                return self._array_type(head, node, parts)
        return OtherType(ast.unparse(node)[:200])

    def _array_type(self, head: str, node: ast.expr, parts: list[ast.expr]) -> Type:
        if len(parts) < 2 or not isinstance(parts[0], ast.List):
            raise _NotUnderstoodError(
                node, f"expected a shape and the type of an element, found {ast.unparse(node)[:60]}"
            )
        shape = self._expressions(parts[0].elts)
        dtype = self._dtype(parts[1])
        view: dict[str, Expression] = {}
        space: MemorySpace | None = None
        reference: MemoryReference | None = None
        layout = ""
        for part in parts[2:]:
            if isinstance(part, ast.Call) and _dotted_name(part.func) == "MemRef":
                reference, memref_space = self._reference(part)
                space = memref_space or space
            elif isinstance(part, ast.Call):
                if part.args:
                    found = ast.unparse(part)[:60]
                    raise _NotUnderstoodError(part, f"expected named attributes, found {found}")
                view |= self._attributes(part.keywords)
            elif isinstance(part, ast.Attribute):
                word = _dotted_name(part).rpartition(".")[2]
                space = _MEMORY_SPACES.get(word, space)
                layout = layout if word in _MEMORY_SPACES else word
            else:
                raise _NotUnderstoodError(part, f"expected a part of a type, found {ast.unparse(part)[:60]}")
        valid, stride = view.get("valid_shape"), view.get("stride")
        explicit_layout = view.get("layout", view.get("blayout"))
        layout = explicit_layout.last if isinstance(explicit_layout, NamedConstant) else layout
        valid_shape = valid.elements if isinstance(valid, ItemList) and valid.elements else None
        strides = stride.elements if isinstance(stride, ItemList) else ()
        if head != "Tile":
            return TensorType(
                shape=shape,
                dtype=dtype,
                valid_shape=valid_shape,
                stride=strides,
                layout=layout,
                reference=reference,
            )
        inner = view.get("slayout")
        return TileType(
            shape=shape,
            dtype=dtype,
            valid_shape=valid_shape,
            stride=strides,
            layout=layout,
            reference=reference,
            space=space,
            inner_layout=inner.last if isinstance(inner, NamedConstant) else "",
            start_offset=view.get("start_offset"),
        )

    def _reference(self, node: ast.Call) -> tuple[MemoryReference, MemorySpace | None]:
        arguments = self._expressions(node.args)
        if len(arguments) < 3:
            raise _NotUnderstoodError(
                node, f"expected MemRef(base, offset, size), found {ast.unparse(node)[:60]}"
            )
        base, offset, size = arguments[:3]
        if not isinstance(size, Constant) or not isinstance(size.value, int) or size.value < 0:
            raise _NotUnderstoodError(node, f"expected the size of a MemRef, found {ast.unparse(node)[:60]}")
        if isinstance(base, NamedConstant):
            return MemoryReference(None, offset, size.value), _MEMORY_SPACES.get(base.last)
        name = base.name if isinstance(base, Variable) else base.value if isinstance(base, Constant) else None
        if not isinstance(name, str):
            raise _NotUnderstoodError(node, f"expected the base of a MemRef, found {ast.unparse(node)[:60]}")
        return MemoryReference(name, offset, size.value), None


def _dotted_name(node: ast.expr) -> str:
    """Return the dotted name of a node without its first part, the module or `self`: `tile.add` of `pl.tile.add`.

    A single name is returned whole. The module `pld` becomes the first part again, as in `pld.X`.
    """
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise _NotUnderstoodError(node, f"expected a name, found {type(node).__name__}")
    if node.id == "pld" and names:
        names.append(node.id)
    return ".".join(reversed(names)) if names else node.id


def _function_attributes(node: ast.stmt) -> ast.Dict | None:
    """Return the attributes in a statement `pl.func_attr({...})`. Older dumps have them in a decorator."""
    match node:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(attr="func_attr"), args=[ast.Dict() as entries], keywords=[])
        ):
            return entries
        case _:
            return None


def _variable_names(nodes: list[ast.expr]) -> tuple[str, ...]:
    names: list[str] = []
    for node in nodes:
        if not isinstance(node, ast.Name):
            raise _NotUnderstoodError(node, f"expected the name of a variable, found {type(node).__name__}")
        names.append(node.id)
    return tuple(names)


def _check_initial_values(node: ast.For, carried: tuple[str, ...], initial: tuple[Expression, ...]) -> None:
    if len(carried) != len(initial):
        raise _NotUnderstoodError(
            node, f"expected as many initial values as carried ones, found {len(initial)} and {len(carried)}"
        )


def _loop_bounds(
    node: ast.For, arguments: tuple[Expression, ...]
) -> tuple[Expression, Expression, Expression]:
    """Return the start, the stop and the step of a loop. Its arguments are those of Python's `range`."""
    match arguments:
        case (stop,):
            return Constant(0), stop, Constant(1)
        case (start, stop):
            return start, stop, Constant(1)
        case (start, stop, step):
            return start, stop, step
        case _:
            raise _NotUnderstoodError(node, f"expected one to three bounds of a loop, found {len(arguments)}")


def _loop_targets(target: ast.expr) -> tuple[str, tuple[str, ...]]:
    """Return the variable of a loop and the variables that carry values between iterations."""
    match target:
        case ast.Name(id=variable):
            return variable, ()
        case ast.Tuple(elts=[ast.Name(id=variable), ast.Tuple(elts=carried)]):
            return variable, _variable_names(carried)
        case _:
            raise _NotUnderstoodError(target, "expected a loop's variable and the values that it carries")
