"""Features of CPUs, LLVM's words for a target, and the machine model."""

import pytest

from tilesmith import target as targets
from tilesmith.support.errors import TargetError
from tilesmith.target import Target, features, host, machine_model


@pytest.mark.parametrize(
    "text, has, has_not",
    [
        ("llvm -mcpu=x86-64", "sse2", "avx"),
        ("llvm -mcpu=x86-64-v3", "avx2 fma f16c", "avx512f"),
        ("llvm -mcpu=core-avx2", "avx2 fma", "avx512f"),
        ("llvm -mcpu=skylake-avx512", "avx512f avx512vl", "avx512vnni"),
        ("llvm -mcpu=cascadelake", "avx512vnni", "avx512bf16"),
        ("llvm -mcpu=sapphirerapids", "avx512bf16 avx512fp16 amx-int8 amx-bf16", "sse4a"),
        ("llvm -mcpu=znver4", "avx512bf16 sse4a", "amx-tile"),
        ("llvm -mcpu=haswell -mattr=-avx2", "avx", "avx2"),
        ("llvm -mcpu=haswell -mattr=+avx512vnni", "avx512f avx512vnni", "avx512vl"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "neon", "dotprod sve"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "dotprod fullfp16", "i8mm"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", "sve i8mm bf16", "sve2"),
        ("llvm -mtriple=arm64-apple-macos -mcpu=apple-m1", "neon dotprod", "sve"),
        ("llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon", "neon", "dotprod"),
        ("llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-x280", "v", "zvkb"),
    ],
)
def test_features(text, has, has_not):
    known = features.target_features(Target(text))
    assert set(has.split()) <= known
    assert not known & set(has_not.split())
    assert targets.codegen.llvm_cpu_has_features(has.split(), text)
    assert not targets.codegen.target_has_features(has_not.split()[0], text)


def test_features_as_attributes():
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1").features
    assert arm.is_aarch64 and arm.has_asimd and arm.has_sve and arm.has_matmul_i8
    x86 = Target("llvm -mcpu=haswell").features
    assert x86.has_avx2 and x86.has_sse4_1 and not x86.is_aarch64 and not x86.has_avx512f
    assert x86.nonsense is None and not hasattr(x86, "_nonsense")
    board = Target("c -mcpu=cortex-m7").features
    assert board.has_dsp and not board.has_mve and not board.is_aarch64
    assert Target("c -mcpu=cortex-m55").features.has_mve
    assert not Target("c -mcpu=cortex-m0").features.has_dsp
    assert not Target("c -mcpu=of-my-own").features.has_dsp


def test_unknown_cpu_names_the_nearest():
    with pytest.raises(TargetError, match="skylake-avx512"):
        features.target_features(Target("llvm -mcpu=skylake-avx521"))
    with pytest.raises(TargetError, match="unknown CPU"):
        features.llvm_machine(Target("llvm -mcpu=z80"))


@pytest.mark.parametrize(
    "text, near",
    [
        ("-mattr=+avx21", "avx2"),
        ("-mattr=-fmaa", "fma"),
        ("-mcpu=znver4 -mattr=avx512vnn", "avx512vnni"),
        ("-mtriple=aarch64-linux-gnu -mattr=+dotprd", "dotprod"),
        ("-mtriple=wasm32 -mattr=simd", "simd128"),
    ],
)
def test_an_unknown_feature_names_the_nearest(text, near):
    target = Target(f"llvm {text}")
    for ask in (features.target_features, features.llvm_machine):
        with pytest.raises(TargetError, match=f"(?s)unknown feature.*\n.*'{near}'"):
            ask(target)


def test_every_feature_of_a_known_cpu_has_a_known_name():
    for family in ("x86", "aarch64", "arm", "riscv"):
        named = [features.cpu_features(cpu, family) for cpu in features.known_cpus(family)]
        assert frozenset().union(*named) <= features.known_features(family)


def test_every_record_of_the_table_is_sane():
    for family, least in (("x86", 60), ("aarch64", 60), ("arm", 30), ("riscv", 15)):
        names = features.known_cpus(family)
        assert len(names) >= least
        # Only the generic names of Arm and RISC-V promise nothing beyond the base.
        bare = [name for name in names if not features.cpu_features(name, family)]
        assert set(bare) <= {"generic", "generic-ooo", "rocket", "sifive-7-series"}, bare
    assert all(
        any(cpu in features.known_cpus(family) for family in features.GENERIC_CPU)
        for cpu in features.ALIASES.values()
    )


def test_llvm_knows_the_words():
    """LLVM accepts what `llvm_machine` says, for this machine and for others."""
    from llvmlite import binding

    binding.initialize_all_targets()
    for text in (
        "llvm",
        "llvm -mattr=-fma",
        "llvm -mcpu=skylake-avx512",
        "llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon",
        "llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u54 -mabi=lp64d",
    ):
        words = features.llvm_machine(Target(text))
        machine = binding.Target.from_triple(words.triple).create_target_machine(
            cpu=words.cpu, features=words.features, abiname=words.abi
        )
        assert machine.triple


def test_llvm_words():
    here = features.llvm_machine(Target("llvm -mattr=-fma"))
    assert (
        here.triple == host.host_cpu().triple
        and here.features.endswith("-fma")
        or ("-fma" in here.features)
    )
    named = features.llvm_machine(Target("llvm -mcpu=skylake-avx512"))
    assert (named.cpu, named.features) == ("skylake-avx512", "-prefer-256-bit")
    narrow = features.llvm_machine(Target("llvm -mcpu=skylake-avx512 -mattr=+prefer-256-bit"))
    assert narrow.features == "+prefer-256-bit"
    assert features.llvm_machine(Target("llvm -mcpu=core-avx2")).cpu == "haswell"
    foreign = features.llvm_machine(Target("llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon"))
    assert (foreign.triple, foreign.features) == ("armv7a-unknown-linux-gnueabihf", "+neon")


@pytest.mark.parametrize(
    "text, lanes, registers, fma",
    [
        ("llvm -mcpu=skylake-avx512", 16, 32, True),
        ("llvm -mcpu=core-avx2", 8, 16, True),
        ("llvm -mcpu=sandybridge", 8, 16, False),
        ("llvm -mcpu=x86-64", 4, 16, False),
        ("llvm -mcpu=skylake-avx512 -mattr=-avx512f", 8, 16, True),
        ("llvm -mcpu=skylake-avx512 -vector-width=256", 8, 32, True),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", 4, 32, True),
        ("llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon", 4, 16, True),
        ("llvm -mtriple=armv7m-none-eabi -mcpu=cortex-m3", 2, 16, False),
    ],
)
def test_machine_model(text, lanes, registers, fma):
    model = machine_model(Target(text))
    assert (model.lanes(32), model.vector_registers, model.has_fma) == (lanes, registers, fma)
    with Target(text):
        assert targets.x86.get_simd_32bit_lanes() == lanes
    assert model.lanes(8) == 4 * lanes and model.least_accumulators >= 4


def test_peak():
    assert machine_model(Target("llvm -mcpu=skylake-avx512")).peak_flops_per_cycle() == 64
    assert machine_model(Target("llvm -mcpu=haswell")).peak_flops_per_cycle() == 32


def test_identity_tells_machines_apart(monkeypatch):
    here = targets.target_identity(Target("llvm"))
    assert here == targets.target_identity(Target("llvm"))
    assert here != targets.target_identity(Target("llvm -mattr=-fma"))
    assert targets.target_identity(Target("cuda")) != targets.target_identity(
        Target("cuda", "llvm")
    )
    elsewhere = host.HostCPU("x86_64-linux-gnu", "other", frozenset({"sse2"}), ("+sse2",))
    monkeypatch.setattr(features, "host_cpu", lambda: elsewhere)
    features._features.cache_clear()
    assert targets.target_identity(Target("llvm")) != here
    features._features.cache_clear()


def test_cores():
    assert machine_model(Target("llvm -num-cores=7")).cores == 7
    assert machine_model(Target("llvm")).cores == host.host_cores() >= 1
    assert machine_model(Target("llvm -mtriple=aarch64-linux-gnu")).cores == 1


def test_caches_of_this_machine_are_read(tmp_path):
    for index, (level, kind, size) in enumerate(
        [
            (1, "Data", "48K"),
            (1, "Instruction", "32K"),
            (2, "Unified", "2048K"),
            (3, "Unified", "1G"),
        ]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text(f"{kind}\n")
        (folder / "size").write_text(f"{size}\n")
        (folder / "coherency_line_size").write_text("64\n")
    assert host.host_caches(tmp_path) == host.CacheSizes(49152, 2097152, 1 << 30, 64)
    assert host.host_caches(tmp_path / "missing") is None


def test_llvm_questions():
    assert targets.codegen.llvm_version_major() >= 15
    assert "x86_64" in targets.codegen.llvm_get_targets()
    assert "haswell" in targets.codegen.llvm_get_cpu_archlist("llvm -mcpu=haswell")
    number = targets.codegen.llvm_lookup_intrinsic_id("llvm.fma")
    assert number and targets.codegen.llvm_get_intrinsic_name(number) == "llvm.fma"
    assert targets.codegen.llvm_lookup_intrinsic_id("fma") == 0


def test_a_width_of_vectors_that_is_given():
    assert targets.codegen.llvm_get_vector_width(Target("llvm -mcpu=skylake-avx512")) == 512
    assert targets.codegen.llvm_get_vector_width(Target("llvm -vector-width=256")) == 256


@pytest.mark.parametrize("name", ["nocona", "k8", "opteron", "athlon64"])
def test_the_first_cpus_of_64_bits(name):
    target = Target(f"llvm -mcpu={name}")
    assert features.target_features(target) == features.target_features(Target("llvm -mcpu=x86-64"))
    assert features.llvm_machine(target).cpu == "x86-64"


@pytest.mark.parametrize(
    "triple, full",
    [
        ("armv7a-linux-gnueabihf", "armv7a-unknown-linux-gnueabihf"),
        ("arm64-linux-android", "arm64-unknown-linux-android"),
        ("aarch64-linux", "aarch64-unknown-linux"),
        ("thumbv7em-none-eabi", "thumbv7em-unknown-none-eabi"),
        ("x86_64-pc-windows-msvc", "x86_64-pc-windows-msvc"),
        ("riscv32-unknown-elf", "riscv32-unknown-elf"),
        ("nvptx64-nvidia-cuda", "nvptx64-nvidia-cuda"),
        ("hexagon", "hexagon"),
        ("", ""),
    ],
)
def test_triples_have_a_vendor(triple, full):
    assert features.full_triple(triple) == full == features.full_triple(full)
