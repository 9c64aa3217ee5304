"""What the main thread's stack shows."""

from __future__ import annotations

import pytest

from torchdeck.telemetry.doctor.main_thread import activity_of, is_computing
from torchdeck.telemetry.doctor.thread_stacks import Place

SITE = "/venv/lib/python3.11/site-packages"


def stack(text: str) -> list[Place]:
    """`file function` per line, innermost first; files of torch and triton without the folder before."""
    found = [line.split() for line in text.strip().splitlines()]
    return [
        Place(file if file.startswith("/code") else f"{SITE}{file}", 1, function) for file, function in found
    ]


# as of torch 2.13; the functions of the user sleep
IN_A_COMPILED_MODEL = """
/code/train.py hang
/torch/_dynamo/eval_frame.py _fn
/code/train.py forward
/torch/nn/modules/module.py _call_impl
/torch/_dynamo/eval_frame.py compile_wrapper
/torch/_dynamo/eval_frame.py __call__
/code/train.py <module>
"""
IN_A_COMPILED_OPERATOR = """
/code/train.py operator
/torch/_library/custom_ops.py wrapped_fn
/torch/_dynamo/eval_frame.py _fn
/torch/_compile.py inner
/torch/_ops.py __call__
/torch/_inductor/output_code.py __call__
/torch/_functorch/_aot_autograd/runtime_wrappers.py __call__
/torch/_functorch/_aot_autograd/subclass_codegen.py:codegen(runtime_wrapper_orchestration) _runtime_wrapper
/torch/_functorch/aot_autograd.py forward
/torch/_dynamo/eval_frame.py _fn
/code/train.py <module>
"""
IN_A_KERNEL_OF_TRITON = """
/triton/backends/nvidia/driver.py __call__
/triton/runtime/jit.py run
/code/train.py step
"""
IN_THE_OPTIMIZER = """
/code/train.py hook
/torch/optim/optimizer.py wrapper
/torch/_dynamo/eval_frame.py _fn
/code/train.py step
"""


@pytest.mark.parametrize(
    "text", [IN_A_COMPILED_MODEL, IN_A_COMPILED_OPERATOR, IN_A_KERNEL_OF_TRITON, IN_THE_OPTIMIZER]
)
def test_compiled_code_that_runs_is_not_being_compiled(text: str) -> None:
    assert activity_of(stack(text)) == ""


@pytest.mark.parametrize(
    ("file", "function"),
    [
        ("/torch/_dynamo/convert_frame.py", "_compile"),
        ("/torch/_inductor/compile_fx.py", "compile_fx_inner"),
        ("/torch/_functorch/_aot_autograd/graph_capture.py", "aot_dispatch_autograd_graph"),
        ("/triton/compiler/compiler.py", "compile"),
    ],
)
def test_a_compiler_is_known_by_any_of_its_frames(file: str, function: str) -> None:
    """faulthandler writes the innermost 64 frames of what may be hundreds."""
    inner = "/torch/fx/proxy.py __torch_function__\n" * 9
    assert activity_of(stack(f"{inner}{file} {function}{IN_A_COMPILED_MODEL}")) == "compiling"


def test_compiled_code_computes() -> None:
    """torch's inductor writes it into files of its own."""
    name = "ccymc2b2cfdjukju2ducktk4yu4sfsmcdlw32kdvstwsrgrhwnwp"
    assert is_computing([Place(f"/tmp/torchinductor_root/cy/{name}.py", 9, "call")])
    assert not is_computing([Place("/code/train.py", 9, "call")])
    assert not is_computing([])
