"""What a declaration in an orchestration binds a name to: a tensor, a create info, an entry argument."""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from .constants import Constants
from .cpp_syntax import call_arguments, callee, declared_name, descendants, root_name, span_of, text_of
from .model import CodeBlock, CreateInfo, Origin, ScalarBinding, TensorName

_TENSOR_TYPES = frozenset({"Tensor", "ChipTensor", "auto"})
_VIEWS = frozenset({"view", "transpose", "reshape", "slice", "permute", "squeeze", "unsqueeze"})
_MAKERS = ("make_tensor", "from_tensor_arg", "from_task_arg")
_READ_AS_TENSOR = ("*>", "to_tensor", ".data<", "from_task_arg")
_KERNEL_SLOTS = ("aic_kernel_id", "aiv0_kernel_id", "aiv1_kernel_id")


@dataclass
class Bindings:
    """Collects the names bound in one file, in source order.

    `entry_parameters` are the entry function's: what is read from them is an argument of the orchestration.
    """

    constants: Constants
    entry_parameters: frozenset[str]
    allocations: set[str] = field(default_factory=set[str])
    tensors: list[TensorName] = field(default_factory=list[TensorName])
    create_infos: list[CreateInfo] = field(default_factory=list[CreateInfo])
    entry_scalars: list[ScalarBinding] = field(default_factory=list[ScalarBinding])
    _arrays: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _pointers: dict[str, int] = field(default_factory=dict[str, int])
    _known: set[str] = field(default_factory=set[str])

    def declare(self, statement: Node, declarator: Node, blocks: tuple[CodeBlock, ...]) -> None:
        """Takes in one declarator, with its initializer, of the declaration `statement`."""
        name = declared_name(declarator)
        value = declarator.child_by_field_name("value")
        type_name = text_of(statement.child_by_field_name("type"))
        if type_name == "MixedKernels" and value is None:
            self._arrays[name] = ("INVALID_KERNEL_ID",) * len(_KERNEL_SLOTS)
        if not name or value is None:
            return
        if value.type == "initializer_list":
            self._arrays[name] = tuple(text_of(child) for child in call_arguments(value))
        elif type_name == "TensorCreateInfo":
            self._create_info(statement, name, value)
        elif type_name in _TENSOR_TYPES and (bound := self._tensor(value)):
            origin, base, index = bound
            self._known.add(name)
            self.tensors.append(
                TensorName(
                    name=name,
                    origin=origin,
                    base=base,
                    index=index,
                    expression=span_of(value),
                    blocks=blocks,
                    statement=span_of(statement),
                )
            )
        elif (scalar := self._entry_access(value, "scalar")) is not None:
            self.entry_scalars.append(ScalarBinding(name=name, index=scalar, statement=span_of(statement)))
        elif (pointer := self._entry_access(value, "tensor")) is not None:
            self._pointers[name] = pointer

    def assign(self, statement: Node, assignment: Node) -> None:
        """Takes in `target = value`: a slot of mixed kernels, or an entry scalar read through a union."""
        target = assignment.child_by_field_name("left")
        value = assignment.child_by_field_name("right")
        if value is None or target is None:
            return
        field_name = text_of(target.child_by_field_name("field"))
        if field_name in _KERNEL_SLOTS and (slots := self._arrays.get(root_name(target))):
            slot = _KERNEL_SLOTS.index(field_name)
            self._arrays[root_name(target)] = (*slots[:slot], text_of(value), *slots[slot + 1 :])
        scalar = self._entry_access(value, "scalar")
        if scalar is not None:
            self.entry_scalars.append(
                ScalarBinding(name=text_of(target), index=scalar, statement=span_of(statement))
            )

    def array(self, name: str) -> tuple[str, ...]:
        """Elements of the array or aggregate variable `name`; empty if unknown."""
        return self._arrays.get(name, ())

    def _create_info(self, statement: Node, name: str, value: Node) -> None:
        arguments = [text_of(argument) for argument in call_arguments(value)]
        shape = self._arrays.get(arguments[0]) if arguments else None
        dtype = arguments[2] if len(arguments) > 2 else ""
        self.create_infos.append(
            CreateInfo(name=name, shape=shape, dtype=dtype, statement=span_of(statement))
        )

    def _tensor(self, value: Node) -> tuple[Origin, str, int | None] | None:
        """Origin, base and index of the tensor that `value` is; None if it is no tensor."""
        if value.type == "identifier":
            name = text_of(value)
            return (Origin.ALIAS, name, None) if name in self._known else None
        if value.type != "call_expression":
            return None
        target, function = callee(value)
        if function == "get_ref" and target is not None:
            base = text_of(target)
            arguments = call_arguments(value)
            index = self.constants.number(text_of(arguments[0])) if arguments else None
            return Origin.ALLOCATED if base in self.allocations else Origin.TASK_OUTPUT, base, index
        if function in _VIEWS and target is not None:
            return Origin.VIEW, text_of(target), None
        makes_tensor = function.startswith(_MAKERS)
        if makes_tensor or root_name(value) in self.entry_parameters:
            entry = self._entry_access(value, "tensor")
            if entry is not None:
                return Origin.ENTRY, "", entry
        return (Origin.CREATED, "", None) if makes_tensor else None

    def _entry_access(self, value: Node, kind: str) -> int | None:
        """Index of the entry's tensor or scalar that `value` reads, also through a pointer taken before.

        Arguments are `orch_args.tensor(i)` and `orch_args.scalar(i)`. The first dialects had one array of
        both, `orch[i]` or `args[i]`: what is read there as a pointer or by a tensor's maker is a tensor.
        """
        for node in descendants(value):
            if node.type == "call_expression":
                target, method = callee(node)
                if method == kind and root_name(target) in self.entry_parameters:
                    return self._index(call_arguments(node))
            elif node.type == "subscript_expression":
                array = text_of(node.child_by_field_name("argument"))
                is_tensor = any(mark in text_of(value) for mark in _READ_AS_TENSOR)
                if array in self.entry_parameters and is_tensor == (kind == "tensor"):
                    return self._index(call_arguments(node.named_children[-1]))
            elif node.type == "identifier" and kind == "tensor" and text_of(node) in self._pointers:
                return self._pointers[text_of(node)]
        return None

    def _index(self, arguments: list[Node]) -> int | None:
        return self.constants.number(text_of(arguments[0])) if len(arguments) == 1 else None
