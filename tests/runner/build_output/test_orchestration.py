"""Orchestration sources in the dialects of all eras, and the exactness of every place in them."""

import pytest

from precision_bisect.runner.build_output.files import (
    BuildOutputError,
    Folder,
    MalformedFileError,
    UnsafePathError,
)
from precision_bisect.runner.build_output.orchestration import (
    BlockKind,
    Orchestration,
    Origin,
    SubmitKind,
    Usage,
)
from tests.runner.build_output.build_files import ORCHESTRATION


def parse(text: str) -> Orchestration:
    return Orchestration.parse(text.encode())


def in_entry(body: str, parameters: str = "const ChipTaskArgs& orch_args") -> str:
    return f"void aicpu_orchestration_entry({parameters}) {{\n{body}\n}}\n"


def arguments(submit):
    return [(one.usage, one.text) for one in submit.arguments]


def kernels(submit):
    return [kernel.func_id for kernel in submit.kernels]


def test_newest_dialect():
    read = parse(ORCHESTRATION)
    assert read.syntax_errors == ()
    assert read.expected_arg_count.value == 3
    assert read.text(read.expected_arg_count.span) == "3"
    assert [(t.name, t.index) for t in read.entry_tensors] == [("ext_x", 0), ("ext_y", 1)]
    assert [(s.name, s.index) for s in read.entry_scalars] == [("factor", 0)]
    (info,) = read.create_infos
    assert (info.name, info.shape, info.dtype) == ("squares_ci", ("64", "32"), "DataType::FLOAT32")
    (allocation,) = read.allocations
    assert (allocation.variable, allocation.infos) == ("alloc_0", ("squares_ci",))
    origins = {tensor.name: (tensor.origin, tensor.base, tensor.index) for tensor in read.tensors[2:]}
    assert origins == {"squares": (Origin.ALLOCATED, "alloc_0", 0), "part": (Origin.VIEW, "squares", None)}

    square, summed = read.submits
    assert (square.kind, kernels(square), square.arguments_variable) == (
        SubmitKind.AIV,
        [-1, 0, -1],
        "params_t0",
    )
    assert arguments(square) == [
        (Usage.INPUT, "ext_x"),
        (Usage.INOUT, "squares"),
        (Usage.SCALAR, "to_u64(factor)"),
    ]
    assert [one.text for one in square.tensor_arguments] == ["ext_x", "squares"]
    assert square.result == "task_0_outs"
    assert [marker.names for marker in square.dumps] == [("squares",)]
    assert (summed.kind, kernels(summed), summed.kernels[0].text) == (SubmitKind.AIC, [1, -1, -1], "FUNC_SUM")
    assert summed.result is None
    assert [block.kind for block in square.blocks] == [BlockKind.SCOPE]
    assert [block.kind for block in summed.blocks] == [
        BlockKind.SCOPE,
        BlockKind.LOOP,
        BlockKind.MANUAL_SCOPE,
    ]
    assert (square.in_manual_scope, summed.in_manual_scope) == (False, True)
    assert [read.text(span) for span in summed.other_statements] == ["params_t1.set_dependencies(deps, 1);"]
    assert square.function == "aicpu_orchestration_entry"


def test_places_are_exact():
    read = parse("// ünïcode before everything\n" + ORCHESTRATION)
    square, summed = read.submits
    assert read.text(square.statement) == "TaskOutputTensors task_0_outs = rt_submit_aiv_task(0, params_t0);"
    assert square.declaration is not None
    assert read.text(square.declaration) == "CoreTaskArgs params_t0;"
    assert [read.text(one.statement) for one in square.arguments][1] == "params_t0.add_inout(squares);"
    assert [read.text(one.expression) for one in square.arguments] == ["ext_x", "squares", "to_u64(factor)"]
    assert read.text(square.dumps[0].statement) == "params_t0.dump(squares);"
    assert read.text(read.tensors[0].statement) == "const ChipTensor& ext_x = orch_args.tensor(0).ref();"
    assert read.text(read.tensors[0].expression) == "orch_args.tensor(0).ref()"
    loop = summed.blocks[1]
    assert read.text(loop.span).startswith("for (int64_t row = 0; row < 64; row += 32) {")
    assert read.text(loop.body)[0] + read.text(loop.body)[-1] == "{}"
    assert summed.statement in loop.body
    assert square.statement not in loop.body
    assert read.entry is not None
    assert read.text(read.entry).startswith("{\n    const ChipTensor& ext_x")


def test_cutting_a_submit_out_leaves_the_rest():
    read = parse(ORCHESTRATION)
    square = read.submits[0]
    assert square.declaration is not None
    spans = [square.declaration, square.statement, *(m.statement for m in square.dumps)]
    spans += [argument.statement for argument in square.arguments]
    text = read.source
    for span in sorted(spans, reverse=True):
        text = text[: span.start] + text[span.end :]
    again = Orchestration.parse(text)
    assert again.syntax_errors == ()
    assert b"params_t0" not in text
    assert [submit.arguments_variable for submit in again.submits] == ["params_t1"]


@pytest.mark.parametrize(
    "type_name", ["PTOParam", "Arg", "L0TaskArgs", "CoreTaskArgs", "L0TaskArgsWithDeps<4>"]
)
@pytest.mark.parametrize(
    "call", ["pto2_rt_submit_aiv_task(rt, 2, p)", "pto2_rt_submit_aiv_task(2, p)", "rt_submit_aiv_task(2, p)"]
)
def test_names_of_the_gathering_type_and_the_submit(type_name, call):
    (submit,) = parse(
        in_entry(f"{type_name} p; p.add_input(a); p.add_output(b_ci); p.add_no_dep(c); {call};")
    ).submits
    assert (submit.kind, kernels(submit)) == (SubmitKind.AIV, [-1, 2, -1])
    assert arguments(submit) == [(Usage.INPUT, "a"), (Usage.OUTPUT, "b_ci"), (Usage.NO_DEPENDENCY, "c")]


def test_first_dialect():
    """February 2026: one array of arguments, parameters listed, a worker type, a kernel's name."""
    read = parse(
        "#define ARG_PTR_A 0\n#define ARG_PTR_D 1\n#define ARG_N 2\n"
        + in_entry(
            """
    void* arg_a_ptr = reinterpret_cast<void*>(args[ARG_PTR_A]);
    void* arg_d_ptr = reinterpret_cast<void*>(args[ARG_PTR_D]);
    uint64_t n = args[ARG_N];
    uint64_t a_shapes[2] = {16, 16};
    Tensor ext_a = make_tensor_external(arg_a_ptr, a_shapes, 2, DataType::FLOAT32);
    Tensor ext_d = make_tensor_external(arg_d_ptr, a_shapes, 2, DataType::FLOAT32);
    Tensor c = make_tensor(a_shapes, 2, DataType::FLOAT32);
    PTO2_SCOPE(rt) {
        PTOParam params_t0[] = {
            make_input_param(ext_a),
            make_output_param(c),
            make_scalar_param(float_to_u64(1.0f)),
        };
        pto2_rt_submit_task(rt, 3, PTO2_WORKER_VECTOR, "kernel_add", params_t0, 3);
        PTOParam params_t1[] = { make_input_param(c), make_inout_param(ext_d), };
        pto2_rt_submit_task(rt, 4, PTO2_WORKER_CUBE, params_t1, 2);
    }""",
            "PTO2Runtime* rt, uint64_t* args, int arg_count",
        )
    )
    assert [(t.name, t.origin, t.index) for t in read.tensors] == [
        ("ext_a", Origin.ENTRY, 0),
        ("ext_d", Origin.ENTRY, 1),
        ("c", Origin.CREATED, None),
    ]
    assert [(s.name, s.index) for s in read.entry_scalars] == [("n", 2)]
    add, last = read.submits
    assert (add.kind, kernels(add), add.arguments_variable) == (SubmitKind.AIV, [-1, 3, -1], "params_t0")
    assert arguments(add) == [
        (Usage.INPUT, "ext_a"),
        (Usage.OUTPUT, "c"),
        (Usage.SCALAR, "float_to_u64(1.0f)"),
    ]
    assert (last.kind, kernels(last)) == (SubmitKind.AIC, [4, -1, -1])
    assert [block.kind for block in add.blocks] == [BlockKind.SCOPE]


@pytest.mark.parametrize(
    ("parameters", "declaration"),
    [
        ("OrchArg* orch", "Tensor ext_a = orch[1].to_tensor();"),
        ("const ChipStorageTaskArgs& orch_args", "Tensor ext_a = from_tensor_arg(orch_args.tensor(1));"),
        ("const TaskArg* orch_args", "Tensor ext_a = from_task_arg(orch_args[1]);"),
        ("const L2TaskArgs& orch_args", "const Tensor& ext_a = orch_args.tensor(1).ref();"),
        ("const ChipTaskArgs &orch_args", "const ChipTensor &ext_a = orch_args.tensor(1).ref();"),
        ("const ChipTaskArgs &my_args", "const auto &ext_a = my_args.tensor(1).ref();"),
    ],
)
def test_spellings_of_an_entry_tensor(parameters, declaration):
    read = parse(in_entry(declaration, parameters))
    assert [(t.name, t.index) for t in read.entry_tensors] == [("ext_a", 1)]
    assert read.entry_scalars == ()


def test_metadata_of_an_entry_tensor_is_no_tensor():
    read = parse(
        in_entry("uint64_t n = orch_args.tensor(0).ref().shapes[0]; auto m = f(orch_args.tensor(0).ref());")
    )
    assert read.entry_tensors == ()


@pytest.mark.parametrize(
    "text",
    [
        "float s = from_u64<float>(orch_args.scalar(2));",
        "uint64_t s = orch_args.scalar(2);",
        "s = orch_args.scalar(2);",
    ],
)
def test_spellings_of_an_entry_scalar(text):
    assert [(s.name, s.index) for s in parse(in_entry(text)).entry_scalars] == [("s", 2)]


@pytest.mark.parametrize(
    "submit",
    [
        "rt_submit_task(MixedKernels{1, INVALID_KERNEL_ID, K}, p);",
        "MixedKernels mixed_0 = {1, -1, K}; rt_submit_task(mixed_0, p);",
        "MixedKernels mk; mk.aic_kernel_id = 1; mk.aiv1_kernel_id = K; pto2_rt_submit_task(rt, mk, p);",
    ],
)
def test_mixed_kernels(submit):
    read = parse("constexpr int K = 7;\n" + in_entry("Arg p; p.add_input(a); " + submit))
    assert (read.submits[0].kind, kernels(read.submits[0])) == (SubmitKind.MIXED, [1, -1, 7])
    assert read.submits[0].arguments_variable == "p"


def test_dummy_submit_and_task_outputs():
    read = parse(
        in_entry(
            "CoreTaskArgs fence; auto f = rt_submit_dummy_task(fence); CoreTaskArgs p; p.add_output(ci);"
            "TaskOutputTensors outs = rt_submit_aic_task(0, p); const ChipTensor& y = outs.get_ref(0);"
            "ChipTensor z = y; ChipTensor w = z.transpose(0, 1);"
        )
    )
    assert [submit.kind for submit in read.submits] == [SubmitKind.DUMMY, SubmitKind.AIC]
    assert [(t.name, t.origin, t.base, t.index) for t in read.tensors] == [
        ("y", Origin.TASK_OUTPUT, "outs", 0),
        ("z", Origin.ALIAS, "y", None),
        ("w", Origin.VIEW, "z", None),
    ]


def test_conditional_and_repeated_arguments_are_not_plain():
    (submit,) = parse(
        in_entry(
            "Arg p; p.add_input(a); if (x) { p.add_input(b); } for (;;) p.add_input(c); rt_submit_aic_task(0, p);"
        )
    ).submits
    assert [one.is_added_once for one in submit.arguments] == [True, False, False]


def test_an_argument_list_declared_in_the_loop_is_plain():
    (submit,) = parse(in_entry("for (;;) { Arg p; p.add_input(a); rt_submit_aic_task(0, p); }")).submits
    assert [one.is_added_once for one in submit.arguments] == [True]


def test_variables_of_the_same_name_in_sibling_blocks():
    first, second = parse(
        in_entry(
            "for (;;) { Arg p; p.add_input(a); rt_submit_aic_task(0, p); }"
            "for (;;) { Arg p; p.add_input(b); rt_submit_aic_task(1, p); }"
        )
    ).submits
    assert (arguments(first), arguments(second)) == ([(Usage.INPUT, "a")], [(Usage.INPUT, "b")])


def test_variadic_calls_and_bare_dump():
    (submit,) = parse(
        in_entry("Arg p; p.add_input(a, b); p.add_scalar(x, 3u); p.dump(); rt_submit_aiv_task(0, p);")
    ).submits
    assert [one.text for one in submit.arguments] == ["a", "b", "x", "3u"]
    assert submit.dumps[0].names == ()


def test_submits_in_helpers_branches_and_returns():
    read = parse(
        "static PTO2TaskId helper(const Tensor& t, L0TaskArgs& given) {\n"
        "  L0TaskArgs p; p.add_input(t); if (x) { rt_submit_aiv_task(9, given); }\n"
        "  return rt_submit_aic_task(5, p).task_id(); }\n"
        + in_entry("if (a) { helper(t); } else { Arg q; rt_submit_aiv_task(6, q); }")
    )
    given, returned, branch = read.submits
    assert (given.function, given.declaration, given.arguments) == ("helper", None, ())
    assert kernels(returned) == [5, -1, -1]
    assert [block.kind for block in branch.blocks] == [BlockKind.BRANCH]


@pytest.mark.parametrize(
    "text",
    [
        "switch (n) { case 0: rt_submit_aiv_task(0, p); }",
        "n ? rt_submit_aiv_task(0, p) : skip();",
        "auto outs = n ? skip() : rt_submit_aiv_task(0, p);",
        "n && rt_submit_aiv_task(0, p);",
        "\n#if N\nrt_submit_aiv_task(0, p);\n#endif\n",
        "\n#ifdef N\nskip();\n#else\nrt_submit_aiv_task(0, p);\n#endif\n",
    ],
)
def test_a_submit_that_may_be_left_out_is_in_a_branch(text):
    read = parse(in_entry(f"Arg p; p.add_input(a); {text}"))
    (submit,) = read.submits
    assert [block.kind for block in submit.blocks] == [BlockKind.BRANCH]
    assert [one.is_added_once for one in submit.arguments] == [True]
    assert read.straight_line_submits == ()


@pytest.mark.parametrize(
    "text",
    [
        "switch (n) { case 0: p.add_input(b); }",
        "n ? p.add_input(b) : skip();",
        "n || p.add_input(b);",
        "\n#if N\np.add_input(b);\n#endif\n",
    ],
)
def test_an_argument_that_may_be_left_out_is_not_plain(text):
    (submit,) = parse(in_entry(f"Arg p; p.add_input(a); {text} rt_submit_aic_task(0, p);")).submits
    assert [one.is_added_once for one in submit.arguments] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "if (rt_submit_aiv_task(0, p).ok()) {}",
        "if (auto outs = rt_submit_aiv_task(0, p); n) {}",
        "switch (rt_submit_aiv_task(0, p).code()) {}",
        "bool ok = rt_submit_aiv_task(0, p).ok() && n;",
        "n = rt_submit_aiv_task(0, p) ? 1 : 2;",
    ],
)
def test_a_submit_in_a_condition_is_in_no_branch(text):
    read = parse(in_entry(f"Arg p; p.add_input(a); {text}"))
    assert [kernels(submit) for submit in read.straight_line_submits] == [[-1, 0, -1]]


def test_a_submit_in_the_condition_of_a_loop_is_in_the_loop():
    (submit,) = parse(in_entry("Arg p; while (rt_submit_aiv_task(0, p).ok()) {}")).submits
    assert [block.kind for block in submit.blocks] == [BlockKind.LOOP]


def test_a_file_between_conditions_of_the_preprocessor_is_in_no_branch():
    text = in_entry("Arg p; p.add_input(a); rt_submit_aiv_task(0, p);")
    (submit,) = parse(f"#ifndef ONCE\n#define ONCE\n{text}#endif\n").submits
    assert submit.blocks == ()


def test_lambdas_are_blocks_and_their_statements_exact():
    read = parse(
        in_entry(
            "auto body = [&](const GraphTaskArgs& args) { for (;;) { CoreTaskArgs p; p.add_input(a);\n"
            "rt_submit_aiv_task(3, p); } }; CoreTaskArgs g; g.add_inout(b); rt_submit_graph(&body, g);"
        )
    )
    inner, graph = read.submits
    assert read.text(inner.statement) == "rt_submit_aiv_task(3, p);"
    assert [block.kind for block in inner.blocks] == [BlockKind.LAMBDA, BlockKind.LOOP]
    assert arguments(inner) == [(Usage.INPUT, "a")]
    assert (graph.kind, graph.kernels, graph.arguments_variable) == (SubmitKind.GRAPH, (), "g")


def test_scope_guard_makes_its_block_a_scope():
    read = parse(
        in_entry("for (;;) { PTO2_SCOPE_GUARD(PTO2ScopeMode::MANUAL); Arg p; rt_submit_aiv_task(0, p); }")
    )
    assert [block.kind for block in read.submits[0].blocks] == [BlockKind.LOOP, BlockKind.MANUAL_SCOPE]


def test_unresolved_kernel_is_unknown_not_guessed():
    read = parse(
        "#define K 1\n#if A\n#undef K\n#define K 2\n#endif\n"
        + in_entry("Arg p; rt_submit_aiv_task(K, p); rt_submit_aic_task(f(), p);")
    )
    assert [kernels(submit) for submit in read.submits] == [[-1, None, -1], [None, -1, -1]]


def test_comments_and_strings_submit_nothing():
    read = parse(
        in_entry(
            '/* rt_submit_aiv_task(0, p); */ LOG("rt_submit_aiv_task(0, p);"); // rt_submit_aic_task(1, p);\n'
        )
    )
    assert read.submits == ()


def test_text_that_is_no_orchestration():
    for text in ("", "\0\1\2", "int main() { return 0; }", "}{" * 50):
        read = parse(text)
        assert (read.entry, read.expected_arg_count, read.submits) == (None, None, ())


def test_other_entry_function():
    read = Orchestration.parse(
        b"void go(const A& a) { const Tensor& x = a.tensor(0).ref(); }", entry_function="go"
    )
    assert [tensor.name for tensor in read.entry_tensors] == ["x"]


def test_files(tmp_path):
    folder = Folder.open(tmp_path, expected="a build")
    (tmp_path / "o.cpp").write_text(ORCHESTRATION)
    assert len(Orchestration.open(folder, "o.cpp").submits) == 2
    (tmp_path / "deep.cpp").write_text(in_entry("if (x) {" * 3000 + "}" * 3000))
    with pytest.raises(MalformedFileError, match="deep"):
        Orchestration.open(folder, "deep.cpp")
    with pytest.raises(UnsafePathError):
        Orchestration.open(folder, "../o.cpp")
    with pytest.raises(BuildOutputError, match="orchestration source"):
        Orchestration.open(folder, "none.cpp")
