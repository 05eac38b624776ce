"""What the declarations of an orchestration bind a name to."""

from precision_bisect.runner.build_output.orchestration import (
    Bindings,
    Constants,
    Origin,
    descendants,
    parse_cpp,
)


def bound(body: str, *, entry: str = "orch_args", allocations: tuple[str, ...] = ()) -> Bindings:
    """What a function's body binds."""
    root = parse_cpp(f"void f() {{ {body} }}".encode())
    bindings = Bindings(
        constants=Constants.from_tree(root), entry_parameters=frozenset({entry}), allocations=set(allocations)
    )
    for node in descendants(root):
        if node.type == "declaration":
            for declarator in node.children_by_field_name("declarator"):
                bindings.declare(node, declarator, ())
        elif node.type == "assignment_expression" and node.parent is not None:
            bindings.assign(node.parent, node)
    return bindings


def test_tensors_are_told_by_where_they_come_from() -> None:
    bindings = bound(
        "const ChipTensor& x = orch_args.tensor(3).ref(); Tensor y = outs.get_ref(1); "
        "Tensor z = made.get_ref(0); Tensor v = x.view(shape, offset); Tensor w = v; Tensor u = unknown;",
        allocations=("made",),
    )
    assert [(tensor.name, tensor.origin, tensor.base, tensor.index) for tensor in bindings.tensors] == [
        ("x", Origin.ENTRY, "", 3),
        ("y", Origin.TASK_OUTPUT, "outs", 1),
        ("z", Origin.ALLOCATED, "made", 0),
        ("v", Origin.VIEW, "x", None),
        ("w", Origin.ALIAS, "v", None),
    ]


def test_a_scalar_is_one_read_from_the_entry() -> None:
    bindings = bound(
        "float factor = from_u64<float>(orch_args.scalar(2)); float other = other_args.scalar(0);"
    )
    assert [(scalar.name, scalar.index) for scalar in bindings.entry_scalars] == [("factor", 2)]


def test_the_first_dialects_had_one_array_of_tensors_and_scalars() -> None:
    bindings = bound("Tensor x = from_task_arg(args[0]); float s = from_u64<float>(args[1]);", entry="args")
    assert [(tensor.name, tensor.index) for tensor in bindings.tensors] == [("x", 0)]
    assert [(scalar.name, scalar.index) for scalar in bindings.entry_scalars] == [("s", 1)]


def test_a_create_info_has_the_shape_of_its_array() -> None:
    bindings = bound("uint32_t shapes[2] = {64, N}; TensorCreateInfo info(shapes, 2, DataType::FLOAT32);")
    assert bindings.array("shapes") == ("64", "N")
    (info,) = bindings.create_infos
    assert (info.name, info.shape, info.dtype) == ("info", ("64", "N"), "DataType::FLOAT32")


def test_mixed_kernels_are_filled_slot_by_slot() -> None:
    bindings = bound("MixedKernels mixed; mixed.aic_kernel_id = 4; mixed.aiv1_kernel_id = 5;")
    assert bindings.array("mixed") == ("4", "INVALID_KERNEL_ID", "5")
    assert bindings.array("nothing") == ()
