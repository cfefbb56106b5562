"""Targets: their forms, their scopes, and what is said about those that do not exist."""

import json
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith import target as targets
from tilesmith.runtime.devices import Device
from tilesmith.support.errors import TargetError
from tilesmith.target import Target
from tilesmith.target.detect_target import SUPPORT_DEVICE
from tilesmith.target.factories import MICRO_SUPPORTED_MODELS, STM32_SUPPORTED_SERIES

TEXTS = [
    "llvm",
    "llvm -mcpu=skylake-avx512 -num-cores=4",
    "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod -fast-math",
    "cuda -arch=sm_90a -max_threads_per_block=512",
    "opencl -device=mali",
    "c -mcpu=cortex-m7",
    "ext_dev",
    "hexagon -mcpu=hexagonv68 -vtcm-capacity=262144",
]


@pytest.mark.parametrize("text", TEXTS)
def test_forms_stand_for_the_same_target(text):
    target = Target(text)
    for again in (
        Target(str(target)),
        Target(target.export()),
        Target(json.loads(json.dumps(target.export()))),
        Target(target.to_json()),
        Target(target),
        pickle.loads(pickle.dumps(target)),
        target.with_fields(),
    ):
        assert again == target
        assert hash(again) == hash(target)
        assert again.attrs == target.attrs and again.keys == target.keys


def test_spellings_of_options():
    expected = Target("llvm -mcpu=haswell -num-cores=4 -fast-math")
    assert Target("llvm --mcpu=haswell --num-cores 4 --fast-math=1") == expected
    assert Target("  llvm -num-cores=4 -fast-math true -mcpu haswell") == expected
    assert Target("llvm -libs='cblas,mkl'").libs == ("cblas", "mkl")


def test_attributes():
    target = Target("llvm -mcpu=haswell -mattr=+avx2,-fma -num-cores=3")
    assert target.kind.name == "llvm" and target.keys == ("cpu",)
    assert (target.mcpu, target.mattr, target.num_cores) == ("haswell", ("+avx2", "-fma"), 3)
    assert Target("llvm").num_cores is None and Target("llvm").mcpu == ""
    gpu = Target("cuda -arch=sm_75")
    assert (gpu.arch, gpu.max_num_threads, gpu.thread_warp_size) == ("sm_75", 1024, 32)
    assert gpu.supports_integer_dot_product and not Target("llvm").supports_integer_dot_product
    assert gpu.get_target_device_type() == 2
    with pytest.raises(TargetError, match="max_shared_memory_per_block"):
        _ = gpu.max_shared_memory_per_block


def test_arm_cpu_keys():
    target = Target("llvm --device=arm_cpu --mtriple=armv7a-linux-gnueabihf")
    assert set(target.keys) >= {"arm_cpu", "cpu"}
    assert target.attrs["mtriple"] == "armv7a-linux-gnueabihf"
    assert target.attrs["device"] == "arm_cpu"
    assert "arm_cpu" in Target("llvm -mtriple=aarch64-linux-gnu").keys


def test_host_in_every_form():
    target = Target("cuda", host="llvm -mcpu=haswell")
    assert target.host == Target("llvm -mcpu=haswell")
    assert Target(target.export()) == target != Target("cuda")
    assert Target({"kind": "cuda", "host": {"kind": "llvm"}}).host == Target("llvm")
    assert Target("cuda -host='llvm -mcpu=haswell'") == target


def test_a_target_is_a_node():
    """As an attribute of a function it is compared and hashed by what it says."""
    from tilesmith.ir.structural import structural_equal, structural_hash

    first, second = Target("cuda -arch=sm_80", "llvm"), Target("cuda -arch=sm_80", host="llvm")
    assert structural_equal(first, second) and not structural_equal(first, Target("cuda"))
    assert structural_hash(first) == structural_hash(second)


def test_virtual_device():
    place = targets.VirtualDevice(target="cuda", memory_scope="shared")
    assert place.target == Target("cuda") and place.device_type == 2
    assert place == targets.VirtualDevice(None, "cuda", "shared") != targets.VirtualDevice()
    assert targets.VirtualDevice().device_type == 0


def test_tags():
    target = Target("nvidia/geforce-rtx-4090")
    assert target.arch == "sm_89" and target.tag == "nvidia/geforce-rtx-4090"
    assert Target("nvidia/jetson-nano").host.mcpu == "cortex-a57"
    assert Target("nvidia/nvidia-h100 -max_num_threads=256").max_num_threads == 256
    targets.register_tag("test/mine", {"kind": "llvm", "mcpu": "haswell"}, override=True)
    assert Target("test/mine").mcpu == "haswell"
    every = targets.list_tags()
    assert len(every) > 80 and all(isinstance(t, Target) for t in every.values())


def test_composite():
    target = Target(["cuda", "llvm"])
    assert target.kind.name == "composite"
    assert [Target(part) for part in target.attrs["devices"]] == [Target("cuda"), Target("llvm")]
    for form in (target.export(), str(target), target.to_json()):
        assert Target(form) == target
    assert Target("composite -devices=cuda,llvm") == target
    with_commas = Target(["cuda", "llvm -mcpu=haswell -mattr=+avx2,+fma"])
    assert Target(str(with_commas)) == with_commas


@pytest.mark.parametrize(
    "bad, message, advice",
    [
        ("lvm", "unknown target kind 'lvm'", "llvm"),
        ("llvm -mcup=haswell", "no option '-mcup'", "-mcpu"),
        ("llvm -num-cores=many", "expects a whole number, got 'many'", ""),
        ("llvm -fast-math=maybe", "expects 0, 1, true or false", ""),
        ("llvm haswell", "'haswell' in target", "-mcpu=name"),
        ("llvm -mcpu", "has no value", ""),
        ("llvm -mcpu=a -mcpu=b", "twice", ""),
        ("", "empty text", "llvm"),
        ("{kind: llvm}", "JSON", ""),
        ({"mcpu": "haswell"}, "lacks its 'kind'", ""),
        ({"kind": "llvm", "num-cores": "4"}, "expects a whole number", ""),
        ({"kind": "llvm", "mattr": [1]}, "expects a list of texts", ""),
        ("nvidia/geforce-rtx-3070-tii", "unknown target tag", "nvidia/geforce-rtx-3070-ti"),
        (7, "not int", ""),
        ("llvm -system-lib", "no option '-system-lib' any more", "system_lib() finds it"),
        ("c -runtime=c", "no option '-runtime' any more", "leave the option out"),
        ("cuda -target=x", "no option '-target'", ""),
        ("cuda -arch=90", "expects an architecture such as 'sm_90' or 'sm_90a', got '90'", ""),
        ("cuda -arch=sm_5", "got 'sm_5'", "sm_90"),
        ({"kind": "cuda", "arch": "sm_90x"}, "got 'sm_90x'", "sm_90a"),
        ("nvptx -mcpu=haswell", "expects an architecture", "sm_90"),
        ("cuda -max_threads_per_block=-3", "expects a positive whole number, got -3", ""),
        ("opencl -max_num_threads=0", "expects a positive whole number, got 0", ""),
        ("opencl -max_shared_memory_per_block=-1", "that is not negative, got -1", ""),
    ],
)
def test_errors_name_the_mistake_and_the_remedy(bad, message, advice):
    with pytest.raises(TargetError) as caught:
        Target(bad)
    assert message in str(caught.value) and advice in str(caught.value)


def test_scopes_nest_and_belong_to_a_thread():
    assert Target.current() is None
    with pytest.raises(TargetError, match="no current target"):
        Target.current(allow_none=False)
    seen = []
    with Target("llvm") as outer, Target("cuda") as inner:
        assert Target.current() is inner
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
        assert outer is not inner
        assert Target.target_or_current(None) is inner
    assert seen == [None] and Target.current() is None


def test_canonical_forms():
    llvm, cuda = Target("llvm"), Target("cuda")
    assert Target.canon_target(None) is None and Target.canon_target("llvm") == llvm
    target, host = Target.canon_target_and_host("cuda", "llvm")
    assert target == Target("cuda", "llvm") and host == llvm
    assert Target.canon_target_and_host(None) == (None, None)
    assert Target.canon_multi_target({"cpu": "llvm", "gpu": "cuda"}) == [llvm, cuda]
    assert Target.canon_multi_target("cuda") == [cuda]
    pairs, host = Target.canon_target_map_and_host({"cuda": 1}, "llvm")
    assert pairs == {Target("cuda", "llvm"): 1} and host == llvm
    with pytest.raises(TargetError):
        Target.canon_target_and_host(None, "llvm")


def test_kinds():
    assert {"llvm", "c", "cuda", "opencl", "vulkan", "metal", "rocm", "webgpu", "hexagon",
            "ext_dev", "hybrid", "stackvm"} <= set(Target.list_kinds())  # fmt: skip
    assert targets.TargetKind.options_from_name("llvm")["num-cores"] == "int"
    for name in Target.list_kinds():
        assert Target(name).kind.name == name


@pytest.mark.parametrize(
    "make, kind, key",
    [
        (targets.cuda, "cuda", "gpu"),
        (targets.rocm, "rocm", "gpu"),
        (targets.mali, "opencl", "mali"),
        (targets.bifrost, "opencl", "bifrost"),
        (targets.adreno, "opencl", "adreno"),
        (targets.intel_graphics, "opencl", "intel_graphics"),
        (targets.arm_cpu, "llvm", "arm_cpu"),
        (targets.rasp, "llvm", "arm_cpu"),
        (targets.micro, "c", "cpu"),
        (targets.riscv_cpu, "llvm", "riscv_cpu"),
        (targets.vta, "ext_dev", "vta"),
        (targets.hexagon, "hexagon", "hexagon"),
    ],
)
def test_factories(make, kind, key):
    target = make()
    assert target.kind.name == kind and key in target.keys


def test_factories_take_models_and_options():
    assert targets.arm_cpu("rasp4b64").mcpu == "cortex-a72"
    assert targets.cuda("h100", arch="sm_90a", options=["-max_num_threads=512"]).arch == "sm_90a"
    assert targets.stm32("stm32F4xx").mcpu == "cortex-m4"
    assert targets.hexagon("v73", vtcm_capacity=1024).vtcm_capacity == 1024
    with pytest.raises(TargetError, match="known: "):
        targets.micro("toaster")
    with pytest.raises(TargetError, match="v68"):
        targets.hexagon("sixty")


def test_generic_functions_follow_the_current_target():
    @targets.generic_func
    def pick():
        return "default"

    @pick.register(["cuda", "gpu"])
    def pick_gpu():
        return "gpu"

    pick.register(lambda: "mali", ["mali"])
    assert pick() == "default"
    with Target("cuda"):
        assert pick() == "gpu"
    with targets.mali():
        assert pick() == "mali"
    with pytest.raises(TargetError, match="already"):
        pick.register(pick_gpu, ["gpu"])

    @pick.register("gpu", override=True)
    def pick_another():
        return "another gpu"

    pick.register("cpu", lambda: "cpu")
    with Target("vulkan"):
        assert pick() == "another gpu"
    with Target("llvm"):
        assert pick() == "cpu"


def test_functions_that_are_known_by_name():
    known = targets.get_native_generic_func("test.named")
    with pytest.raises(TargetError, match="no version for None and no default"):
        known()

    @targets.override_native_generic_func("test.named")
    def named(x):
        return x + 1

    @named.register("gpu")
    def named_gpu(x):
        return x + 2

    assert named is known and known(1) == 2 and known.get_packed_func()(1) == 2
    with Target("opencl"):
        assert known(1) == 3

    @targets.override_native_generic_func("test.named")
    def another(x):
        return x + 3

    assert known(1) == 4 and another is known
    with pytest.raises(TargetError, match="has a default already"):
        known.set_default(lambda x: x)
    assert known.set_default(len, allow_override=True) is len and known("ab") == 2


@pytest.mark.parametrize(
    "text, question, answer",
    [
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod", "has_dotprod", True),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+i8mm", "has_matmul_i8", True),
        ("llvm -mtriple=aarch64-linux-gnu", "has_asimd", True),
        ("llvm -mtriple=aarch64-linux-gnu", "has_sve", False),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+sve2", "has_sve", True),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+sme", "has_sme", True),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+fullfp16", "has_fp16_simd", True),
        ("llvm -mtriple=aarch64-linux-gnu", "is_aarch64", True),
        ("llvm -mtriple=armv7a-linux-gnueabihf", "is_aarch64", False),
        ("c -mcpu=cortex-m7", "has_dsp", True),
        ("c -mcpu=cortex-m0", "has_dsp", False),
        ("c -mcpu=cortex-m55", "has_mve", True),
        ("llvm -mcpu=haswell", "has_avx2", True),
        ("llvm -mcpu=haswell", "is_x86", True),
        ("llvm -mcpu=haswell", "nothing_known", None),
    ],
)
def test_features(text, question, answer):
    assert getattr(Target(text).features, question) is answer


@pytest.mark.parametrize("name", sorted(SUPPORT_DEVICE))
def test_targets_of_devices(name):
    assert targets.detect_target_from_device(name) == SUPPORT_DEVICE[name](name)
    assert Target.from_device(name).get_target_device_type() == Device(name).device_type


@pytest.mark.parametrize("model", sorted(MICRO_SUPPORTED_MODELS))
def test_microcontrollers(model):
    for word in MICRO_SUPPORTED_MODELS[model]:
        name, _, value = word.lstrip("-").partition("=")
        assert targets.micro(model).attrs[name] == value


@pytest.mark.parametrize("series", sorted(STM32_SUPPORTED_SERIES))
def test_series_of_stm32(series):
    made = targets.stm32(series)
    assert Target(" ".join(["c", *STM32_SUPPORTED_SERIES[series], f"-model={series}"])) == made
    assert made.keys == ("arm_cpu", "cpu")


def test_options_of_older_programs():
    assert Target("llvm -target=aarch64-linux-gnu") == Target("llvm -mtriple=aarch64-linux-gnu")


def test_target_from_device_name():
    assert Target.from_device("cpu") == Target("llvm")
    assert Target.from_device("cuda").kind.name == "cuda"


@given(
    st.dictionaries(
        st.sampled_from(["mcpu", "mtriple", "device", "model", "mabi"]),
        st.text("abcxyz019_.+-", min_size=1).filter(lambda text: not text.startswith("-")),
    ),
    st.lists(st.sampled_from(["+avx2", "-fma", "+neon"]), max_size=3),
    st.integers(1, 512),
)
def test_text_round_trip(texts, features, cores):
    config = {"kind": "llvm", **texts, "num-cores": cores}
    if features:
        config["mattr"] = features
    target = Target(config)
    assert Target(str(target)) == target


def test_script_of_a_function_with_a_target_parses_back():
    from tilesmith.ir.structural import structural_equal
    from tilesmith.script import from_source
    from tilesmith.script import tir as T

    @T.prim_func
    def function(a: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm -mcpu=haswell -mattr=+fma", host="llvm")})
        for i in range(4):
            a[i] = T.float32(1)

    text = function.script()
    assert 'T.target({"kind": "llvm"' in text
    again = from_source(text)
    assert structural_equal(again, function)
    assert again.attrs["target"] == Target("llvm -mcpu=haswell -mattr=+fma", host="llvm")


@pytest.mark.parametrize(
    "text, bits",
    [
        ("llvm -mcpu=skylake-avx512", 512), ("llvm -mcpu=haswell", 256), ("llvm -mcpu=x86-64", 128),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+sve", 128), ("llvm -mtriple=hexagon", 1024),
    ],
)  # fmt: skip
def test_width_of_vectors(text, bits):
    from tilesmith.target.codegen import llvm_get_vector_width

    assert llvm_get_vector_width(text) == bits
    with Target(text):
        assert llvm_get_vector_width() == bits


def test_configuration_of_a_compilation():
    make_compilation_config = targets.make_compilation_config

    class Context:
        config = {"relay.fallback_device_type": 2}

    one = make_compilation_config(None, "llvm")
    assert one.host_target == Target("llvm") and one.optional_homogeneous_target.kind.name == "llvm"
    assert one.host_virtual_device.device_type == 1
    two = make_compilation_config(None, {1: "llvm -mcpu=haswell", 2: "cuda"})
    assert [part.kind.name for part in two.primitive_targets] == ["llvm", "cuda"]
    assert all(part.host == two.host_target for part in two.primitive_targets)
    assert two.optional_homogeneous_target is None
    assert two.default_primitive_virtual_device.device_type == 1
    chosen = make_compilation_config(Context(), ["llvm", "cuda"])
    assert chosen.default_primitive_virtual_device.device_type == 2
    assert make_compilation_config(None, "cuda").host_target == Target("llvm")
    with pytest.raises(TargetError, match="at least one target"):
        make_compilation_config(None, [])


@pytest.mark.parametrize(
    "given, keys",
    [
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "keys": ["a"]}, ("a", "arm_cpu", "cpu")),
        ({"kind": "llvm", "keys": ["a", "a", "b"]}, ("a", "b")),
        ({"kind": "llvm", "keys": ["a"], "device": "d"}, ("a", "d")),
        ({"kind": "llvm", "device": "d"}, ("d", "cpu")),
        ({"kind": "cuda", "keys": ["x", "cpu"]}, ("x", "cpu")),
        ({"kind": "llvm", "keys": []}, ()),
        ({"kind": "c", "mcpu": "cortex-m55"}, ("arm_cpu", "cpu")),
        ({"kind": "c", "mcpu": "of-my-own"}, ("cpu",)),
        ("llvm -keys=x", ("x",)),
    ],
)
def test_keys_that_are_given_replace_those_of_the_kind(given, keys):
    target = Target(given)
    assert target.keys == keys
    assert Target(str(target)).keys == Target(target.export()).keys == keys


def test_a_tag_beside_a_kind_is_a_label():
    target = Target({"kind": "llvm", "tag": "mine"})
    assert target.tag == "mine" and target.kind.name == "llvm"
    assert Target(target.export()).tag == "mine"
    chosen = Target({"tag": "nvidia/nvidia-a100", "max_num_threads": 3})
    assert chosen.attrs["arch"] == "sm_80" and chosen.attrs["max_num_threads"] == 3
    with pytest.raises(TargetError, match="unknown target tag"):
        Target({"tag": "mine"})
