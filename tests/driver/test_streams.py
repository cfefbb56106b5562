"""Independent branches on several streams: the plan, memory between streams, models that run."""

import gc
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith
from tests.runtime.fake_cuda import on_fake_driver
from tilesmith import relax
from tilesmith.driver.graph_steps import Step
from tilesmith.driver.graph_streams import plan_streams
from tilesmith.driver.memory_plan import Storage, plan_slots
from tilesmith.ir import Call, StringImm, Var, const
from tilesmith.ir.queries import called_name
from tilesmith.ir.transform import PassContext
from tilesmith.relax import op
from tilesmith.runtime import cuda
from tilesmith.runtime.ffi import current_stream
from tilesmith.support.errors import ConfigError, DeviceError, UnsupportedError
from tilesmith.testing import requires_c_compiler
from tilesmith.tir import Evaluate, SeqStmt

DEVICE = tilesmith.opencl(0)
needs_device = pytest.mark.skipif(not DEVICE.exist, reason="there is no OpenCL device here")


def using(streams):
    return PassContext(config={"relax.device_streams": streams})


# What a plan means: the work of steps, and what a device may make of it


def kernel(number, read, written):
    """A step that reads and writes storages."""

    def emit():
        words = [StringImm(f"kernel {number}"), const(len(read), "int32")]
        return Evaluate(Call("int32", "tir.call_extern", (*words, *[
            one.pointer() for one in (*read, *written)])))  # fmt: skip

    return Step(emit, [*read, *written], writes=list(written), name=f"kernel {number}")


def work_of(steps):
    """The work that steps give to the runtime, in order."""
    found = []
    pending = [step.emit() for step in reversed(steps)]
    while pending:
        one = pending.pop()
        if isinstance(one, SeqStmt):
            pending += reversed(one.seq)
            continue
        call = one.value
        name, words = call.args[0].value, call.args[1:]
        if called_name(call) == "tir.call_extern":
            places = [word.value for word in words[1:]]
            reads = int(words[0])
            found.append((name, places[:reads], places[reads:]))
        else:
            numbers = [word.value for word in words[1:]]
            found.append((name.rpartition(".")[2], *numbers))
    return found


def outcome(work, choose):
    """What memory holds after the work, of which `choose` says what the device does first."""
    queues, current, last, marks = {}, 0, {}, 0
    for one in work:
        if one[0] == "use_stream":
            current = one[1]
            queues.setdefault(current, []).extend([("wait", last[event]) for event in one[2:]])
        elif one[0] == "record_event":
            last[one[1]] = marks
            queues.setdefault(current, []).append(("mark", marks))
            marks += 1
        else:
            queues.setdefault(current, []).append(one)
    done, memory = set(), {}
    heads = dict.fromkeys(queues, 0)
    while True:
        ready = [
            stream for stream, queue in queues.items() if heads[stream] < len(queue)
            and not (queue[heads[stream]][0] == "wait" and queue[heads[stream]][1] not in done)
        ]  # fmt: skip
        if not ready:
            assert all(heads[stream] == len(queue) for stream, queue in queues.items())
            return memory
        stream = choose(sorted(ready))
        name, *rest = queues[stream][heads[stream]]
        heads[stream] += 1
        if name == "mark":
            done.add(rest[0])
        elif name != "wait":
            value = hash((name, *[memory.get(place, place) for place in rest[0]]))
            memory.update({place: hash((value, k)) for k, place in enumerate(rest[1])})


@st.composite
def graphs(draw):
    """Kernels by what they read and whether they write over one of that; results; streams."""
    count = draw(st.integers(1, 14))
    kernels = []
    for number in range(count):
        earlier = st.integers(max(-2, number - 6), number - 1)
        kernels.append((draw(st.lists(earlier, min_size=1, max_size=3)),
                        draw(st.integers(0, 9)) == 0))  # fmt: skip
    results = draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    return kernels, results, draw(st.integers(2, 4))


def lowered(graph):
    """The plan of streams, steps and storages of the results."""
    kernels, results, streams = graph
    values = {
        one: Storage.outside(lambda place=100 * one: const(place, "int64")) for one in (-1, -2)
    }
    steps = []
    for number, (reads, is_in_place) in enumerate(kernels):
        read = list(dict.fromkeys([values[one] for one in reads]))
        over = is_in_place and reads[0] >= 0
        values[number] = values[reads[0]] if over else Storage.workspace(const(8, "int64"))
        steps.append(kernel(number, read, [values[number]]))
    for number in results:
        values[number].become(lambda place=number: const(-place - 1000, "int64"))
    plan = plan_streams(steps, streams, id)
    return plan, plan.apply(steps, Var("running", "int64")), [values[one] for one in results]


def is_right(graph, seed=0, change=lambda work: work, precedes=True):
    """Whether several orders leave in the results what the order of the program leaves."""
    plan, steps, results = lowered(graph)
    touched = [step.storages for step in steps]
    plan_slots(touched, lambda place: const(place, "int64"), plan.precedes if precedes else None)
    work = change(work_of(steps))
    places = [storage.pointer().value for storage in results]
    in_order = [one for one in work if one[0].startswith("kernel")]
    alone = outcome(in_order, min)
    draw = random.Random(seed)
    found = [outcome(work, choose) for choose in (max, min, draw.choice, draw.choice)]
    return all(one.get(place) == alone[place] for one in found for place in places)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 1000))
def test_every_order_of_the_device_gives_the_same(graph, seed):
    assert is_right(graph, seed)


FORK = ([([-1], False), ([0], False), ([-1], False), ([2], False), ([1, 3], False)], {4}, 2)


def test_the_check_finds_what_is_wrong():
    assert is_right(FORK)
    assert not is_right(FORK, precedes=False)  # kernel 2 would write over what kernel 1 reads
    assert not is_right(FORK, change=lambda work: [
        one[:2] if one[0] == "use_stream" else one for one in work])  # fmt: skip


def test_slots_and_streams():
    plan, steps, _ = lowered(FORK)
    assert [plan.stream_of(number) for number in range(5)] == [0, 0, 1, 1, 0]
    touched = [step.storages for step in steps]
    assert len(plan_slots(touched, lambda place: const(place, "int64"), plan.precedes)) == 4
    plan, steps, _ = lowered(([([-1], False), ([0], False), ([1], False), ([2], False)], {3}, 4))
    assert plan.count == 1 and not plan.events and len(steps) == 4
    touched = [step.storages for step in steps]
    assert len(plan_slots(touched, lambda place: const(place, "int64"), plan.precedes)) == 2


def test_tensors_that_may_be_the_same_are_ordered():
    one, two = [Storage.outside(lambda place=place: const(place, "int64")) for place in (0, 1)]
    steps = [kernel(0, [one], [one]), kernel(1, [two], [two])]
    assert plan_streams(steps, 2, id).count == 2
    assert plan_streams(steps, 2, lambda storage: "inputs").count == 1


# Whole models


def branches():
    """A module of two branches, softmax(sin(x) · x) and exp(x) · x, and their product."""
    x = relax.Var("x", relax.TensorStructInfo((6, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(op.nn.softmax(builder.emit(op.matmul(op.sin(x), x))))
            second = builder.emit(op.matmul(op.exp(x), x))
            result = builder.emit_output(op.matmul(first, second))
        builder.emit_func_output(result)
    return builder.get()


def expected(x):
    powers = np.exp(np.sin(x) @ x)
    return powers / powers.sum(-1, keepdims=True) @ (np.exp(x) @ x)


X = np.random.default_rng(0).standard_normal((6, 6)).astype("float32")
ORDER = [
    "stream 0: event 0",
    "stream 0: sin",
    "stream 0: matmul",
    "stream 0: softmax",
    "stream 1: wait for event 0",
    "stream 1: exp",
    "stream 1: matmul",
    "stream 1: event 1",
    "stream 0: wait for event 1",
    "stream 0: matmul",
]


@pytest.fixture(scope="module")
def model():
    with using(2):
        return relax.build(branches(), target="opencl")


def test_order(model):
    assert model.metadata["functions"]["main"]["streams"] == {
        "count": 2, "events": 2, "order": ORDER,
    }  # fmt: skip
    assert "streams of main: 2, ordered by 2 events" in model.stats()


@needs_device
def test_results(model, tmp_path):
    model.export_library(tmp_path / "model.so")
    for one in (model, tilesmith.runtime.load_module(tmp_path / "model.so")):
        for scale in (1, -1, 0.5):
            found = one["main"]((X * scale).astype("float32")).numpy()
            np.testing.assert_allclose(found, expected(X * scale), rtol=1e-4, atol=1e-4)


@needs_device
def test_the_stream_of_the_caller_stays(model):
    there = tilesmith.nd.array(X, DEVICE)
    stream = DEVICE.create_raw_stream()
    DEVICE.set_raw_stream(stream)
    try:
        found = model["main"](there)
        assert current_stream(DEVICE.device_type, 0) == stream
        DEVICE.sync(stream)
    finally:
        DEVICE.free_raw_stream(stream)
    np.testing.assert_allclose(found.numpy(), expected(X), rtol=1e-4, atol=1e-4)


@needs_device
@pytest.mark.parametrize("seed", range(3))
def test_random_models(seed):
    """Sums, products and functions of matrices that were drawn, with several results."""
    draw = random.Random(seed)
    ones = {"tanh": (op.tanh, np.tanh), "abs": (op.abs, np.abs)}
    twos = {"add": (op.add, np.add), "matmul": (op.matmul, np.matmul)}
    params = [relax.Var(name, relax.TensorStructInfo((5, 5), "float32")) for name in "xy"]
    given_ = [np.random.default_rng(seed + k).uniform(-1, 1, (5, 5)).astype("f4") for k in (0, 9)]
    builder, values = relax.BlockBuilder(), list(zip(params, given_))
    with builder.function("main", params):
        with builder.dataflow():
            for _ in range(12):
                symbol, compute = (ones | twos)[
                    draw.choice(["tanh", "abs", "add", *["matmul"] * 3])
                ]
                chosen = [
                    draw.choice(values[-5:]) for _ in range(1 + (symbol in (op.add, op.matmul)))
                ]
                made = symbol(*[one for one, _ in chosen])
                value = compute(*[one for _, one in chosen])
                values.append((builder.emit(op.tanh(made)), np.tanh(value)))
            results = draw.sample(values[2:], 3)
            outputs = [builder.emit_output(op.abs(one)) for one, _ in results]
        builder.emit_func_output(relax.Tuple(outputs))
    with using(3):
        executable = relax.build(builder.get(), target="opencl")
    assert executable.metadata["functions"]["main"]["streams"]["count"] > 1
    for found, (_, wanted) in zip(executable["main"](*given_), results):
        np.testing.assert_allclose(found.numpy(), np.abs(wanted), rtol=1e-4, atol=1e-4)


def test_refusals():
    with using(2), pytest.raises(UnsupportedError, match="the target 'llvm' has no streams"):
        relax.build(branches(), target="llvm")
    with using(0), pytest.raises(ConfigError, match="is a number from 1 to 32, got 0"):
        relax.build(branches(), target="opencl")
    with using(1):
        assert "streams" not in relax.build(branches(), "nvptx").metadata["functions"]["main"]


# CUDA, on a driver of our own


@pytest.fixture
def fake(monkeypatch):
    with on_fake_driver(monkeypatch) as made:
        yield made


def shown(lines):
    """What streams were given, with streams and events numbered as they appear."""
    streams, events, found = ["0"], [], []
    for line in lines:
        stream, what, *event = line.split()
        for known, one in ((streams, [stream]), (events, event)):
            known += [name for name in one if name not in known]
        text = {"launch": "launch", "record": "event", "wait": "wait for event"}[what]
        number = "".join([f" {events.index(one)}" for one in event])
        found.append(f"stream {streams.index(stream)}: {text}{number}")
    return found


@requires_c_compiler
def test_what_cuda_is_given(fake):
    with using(2):
        model = relax.build(branches(), target="nvptx")
    device = tilesmith.cuda(1)
    there = tilesmith.nd.array(X, device)
    run = relax.VirtualMachine(model, device)["main"]
    run(there)
    lines = fake.take_order()
    assert lines.count("side stream") == 1
    begin = len(lines)
    run(there)
    wanted = [line if "event" in line else f"{line.partition(':')[0]}: launch" for line in ORDER]
    assert shown(fake.take_order()[begin:]) == wanted
    fake.plan("cuLaunchKernel", 701, after=4)  # in the second stream
    begin = len(fake.take_order())
    with pytest.raises(DeviceError, match=r"\(701\)"):
        run(there)
    assert shown(fake.take_order()[begin:])[-2:] == [
        "stream 1: event 1",
        "stream 0: wait for event 1",
    ]
    assert current_stream(device.device_type, 1) == 0


def recorded(model, argument, fake):
    """A graph of a call, and how many blocks of memory there were when it was made."""
    call = model.on_device(argument.device).get_function("main").bound(argument)
    return cuda.graph_of(lambda *given: call(), *call.tensors), fake.live


@requires_c_compiler
def test_a_graph_has_the_branches(fake):
    with using(2):
        model = relax.build(branches(), target="nvptx")
    there = tilesmith.nd.array(X, tilesmith.cuda(0))
    graph, live = recorded(model, there, fake)
    calls = fake.take_calls()
    inside = calls[calls.index("cuStreamBeginCapture") : calls.index("cuStreamEndCapture")]
    assert sum([one.startswith("cuLaunchKernel") for one in inside]) == 6
    assert sum([one.startswith("cuStreamWaitEvent") for one in inside]) == 2
    assert not any(one.startswith(("cuMemAlloc", "cuEventCreate")) for one in inside)
    assert fake.take_calls().count("cuStreamDestroy") == 2  # its own, and the side stream
    gc.collect()
    assert fake.live == live  # the graph keeps the memory between its kernels
    graph.launch()
