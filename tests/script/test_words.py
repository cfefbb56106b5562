"""The words of ``T`` and ``I`` that users know, and the names of their parameters."""

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest

from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import ScriptError, UnsupportedError

WORDS = """
    int8 int16 int32 int64 int8x4 int16x4 int32x4 int64x4 int8x8 int16x8 int32x8 int64x8 int8x16
    int16x16 int32x16 int64x16 int8x32 int16x32 int32x32 int64x32 int8x64 int16x64 int32x64
    int64x64 uint8 uint16 uint32 uint64 uint8x4 uint16x4 uint32x4 uint64x4 uint8x8 uint16x8
    uint32x8 uint64x8 uint8x16 uint16x16 uint32x16 uint64x16 uint8x32 uint16x32 uint32x32
    uint64x32 uint8x64 uint16x64 uint32x64 uint64x64 e4m3_float8 e5m2_float8 float16 float32
    float64 e4m3_float8x4 e5m2_float8x4 float16x4 float32x4 float64x4 e4m3_float8x8
    e5m2_float8x8 float16x8 float32x8 float64x8 e4m3_float8x16 e5m2_float8x16 float16x16
    float32x16 float64x16 e4m3_float8x32 e5m2_float8x32 float16x32 float32x32 float64x32
    e4m3_float8x64 e5m2_float8x64 float16x64 float32x64 float64x64 buffer buffer_decl prim_func
    arg func_name func_attr func_ret match_buffer block init where reads writes block_attr
    alloc_buffer axis serial parallel vectorized unroll thread_binding grid Assert realize
    allocate allocate_const attr While If Then Else decl_buffer launch_thread env_thread
    buffer_store prefetch evaluate boolean handle void var ptr min max iter_var comm_reducer
    index_map target buffer_var abs fabs acos acosh address_of asin asinh atan atan2 atanh
    bitwise_and bitwise_not bitwise_or bitwise_xor ceil clz copysign cos cosh erf exp exp2 exp10
    floor ceildiv floordiv floormod fmod hypot if_then_else infinity isfinite isinf isnan
    isnullptr ldexp likely log log1p log2 log10 lookup_param max_value min_value nearbyint
    nextafter popcount pow q_multiply_shift q_multiply_shift_per_axis ret reinterpret round
    rsqrt shift_left shift_right sigmoid sin sinh sqrt tan tanh trunc truncdiv truncmod
    tvm_access_ptr tvm_throw_last_error tvm_stack_alloca tvm_stack_make_shape
    tvm_stack_make_array tvm_check_return call_packed call_cpacked call_packed_lowered
    call_cpacked_lowered call_extern call_intrin call_llvm_intrin call_llvm_pure_intrin
    call_pure_extern tvm_tuple tvm_struct_set tvm_struct_get tvm_thread_invariant
    tvm_thread_allreduce tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment
    tvm_store_matrix_sync tvm_storage_sync tvm_warp_shuffle tvm_warp_shuffle_up
    tvm_warp_shuffle_down tvm_warp_activemask ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async
    ptx_cp_async_bulk ptx_wait_group ptx_commit_group ptx_cp_async_barrier
    ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx
    ptx_wait_barrier make_filled_simdgroup_matrix simdgroup_load simdgroup_store
    simdgroup_multiply_accumulate create_barriers mma_store mma_fill vectorlow vectorhigh
    vectorcombine dp4a assume undef tvm_call_packed tvm_call_cpacked tvm_call_packed_lowered
    tvm_call_cpacked_lowered TVMBackendAllocWorkspace TVMBackendFreeWorkspace
    start_profile_intrinsic end_profile_intrinsic meta_var anylist_getitem anylist_resetitem
    anylist_setitem_call_packed anylist_setitem_call_cpacked llvm_lookup_intrinsic_id
    type_annotation broadcast ramp cast Var SizeVar Reduce FloatImm IntImm StringImm Cast Add
    Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Select BufferLoad
    ProducerLoad Ramp Broadcast Shuffle Call CallEffectKind let LetStmt Let IterVar CommReducer
    Range vscale get_active_lane_mask call_kernel
""".split()

BUFFER = (
    "shape dtype data strides elem_offset scope align offset_factor buffer_type axis_separators"
)
PARAMETERS = {
    "buffer": BUFFER,
    "arg": "name obj",
    "func_name": "name",
    "func_attr": "attrs",
    "func_ret": "ret_type",
    "match_buffer": "param " + BUFFER,
    "block": "name no_realize",
    "init": "",
    "where": "predicate",
    "reads": "*buffer_slices",
    "writes": "*buffer_slices",
    "block_attr": "attrs",
    "alloc_buffer": BUFFER,
    "serial": "start stop annotations",
    "parallel": "start stop annotations",
    "vectorized": "start stop annotations",
    "unroll": "start stop annotations",
    "thread_binding": "start stop thread annotations",
    "grid": "*extents",
    "Assert": "condition message",
    "LetStmt": "value type_annotation var",
    "Let": "expr where",
    "let": "v value body",
    "realize": "buffer_slice storage_scope condition",
    "allocate": "extents dtype scope condition annotations",
    "allocate_const": "data dtype extents annotations",
    "attr": "node attr_key value",
    "While": "condition",
    "If": "condition",
    "Then": "",
    "Else": "",
    "decl_buffer": BUFFER,
    "launch_thread": "thread extent",
    "env_thread": "thread_tag dtype",
    "buffer_store": "buffer value indices predicate",
    "prefetch": "buffer bounds",
    "evaluate": "value",
    "func_gen": "name",
    "boolean": "expr is_size_var",
    "handle": "dtype storage_scope is_size_var",
    "void": "expr is_size_var",
    "var": "dtype name",
    "ptr": "dtype storage_scope is_size_var",
    "buffer_var": "dtype storage_scope",
    "min": "a b",
    "max": "a b",
    "iter_var": "v dom iter_type thread_tag",
    "comm_reducer": "combiner identity",
    "index_map": "mapping inverse_index_map",
    "target": "target_config host",
    "Range": "begin end",
}

PARAMETERS_OF_I = {
    "ir_module": "",
    "decl_function": "func_name func_signature",
    "def_function": "func_name func",
    "module_attrs": "attrs allow_overwrite",
    "current_ir_module": "",
    "module_get_attrs": "",
    "module_get_attr": "attr_key",
    "module_set_attr": "attr_key attr_value allow_overwrite",
    "module_global_infos": "global_infos",
    "dummy_global_info": "",
    "vdevice": "target vdevice_id memory_scope",
    "lookup_vdevice": "target_kind device_index",
}


def test_every_word_is_there():
    assert [word for word in WORDS if not hasattr(T, word)] == []


def names_of(function):
    kinds = (inspect.Parameter.VAR_KEYWORD,)
    found = inspect.signature(function).parameters.values()
    return [
        ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name for p in found if p.kind not in kinds
    ]


@pytest.mark.parametrize(
    ("namespace", "word", "wanted"),
    [(T, *row) for row in PARAMETERS.items()] + [(I, *row) for row in PARAMETERS_OF_I.items()],
)
def test_parameters(namespace, word, wanted):
    """Known parameters come first, in their order; ours may follow."""
    wanted = wanted.split()
    assert names_of(getattr(namespace, word))[: len(wanted)] == wanted


@pytest.mark.parametrize("kind", ["spatial", "reduce", "scan", "opaque"])
def test_parameters_of_axes(kind):
    assert names_of(getattr(T.axis, kind)) == ["dom", "binding", "dtype"]


def test_words_for_types():
    assert T.func_gen("int8").dtype == T.func_gen("Int8").dtype == "int8"
    assert T.float8_e4m3fnx4.dtype.lanes == 4 and T.e4m3_float8.dtype == "float8_e4m3fn"
    assert str(T.Ptr["float32", "shared"].type_annotation) == 'T.handle("float32", "shared")'
    assert str(T.Ptr(T.int8).type_annotation) == 'T.handle("int8", "global")'
    assert T.buffer is T.Buffer and T.Buffer[(16,), "float32"].shape[0].value == 16
    made = T.buffer_decl((16,), "int8", scope="shared")
    assert made.dtype == "int8" and made.scope() == "shared"
    assert names_of(T.buffer_decl) == ["*args"]
    with pytest.raises(ScriptError, match="not a size"):
        T.ptr("int8", is_size_var=True)


def test_intrinsics_of_llvm_are_known_by_name():
    assert T.llvm_lookup_intrinsic_id("llvm.prefetch") == "llvm.prefetch"
    with pytest.raises(ScriptError, match="not an LLVM intrinsic"):
        T.llvm_lookup_intrinsic_id("prefetch")


def test_kernels_of_other_compilers():
    with pytest.raises(UnsupportedError, match="T.call_kernel"):
        T.call_kernel("kernel.cu", [1])


def test_newer_spellings():
    assert (T.sblock, T.sblock_attr, T.sblock_alloc_buffer) == (
        T.block,
        T.block_attr,
        T.alloc_buffer,
    )


@pytest.fixture(scope="module")
def writer():
    path = Path(__file__).parents[2] / "tools" / "write_stubs.py"
    specification = importlib.util.spec_from_file_location("write_stubs_of_words", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_editors_know_the_words(writer):
    path = writer.stub_path("tilesmith.script.tir")
    assert path.read_text() == writer.words_text(), "run: python tools/write_stubs.py"
    tree = ast.parse(path.read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert hasattr(importlib.import_module(node.module), alias.name.split(".")[0])
                names.add(alias.asname)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            assert used <= names | {"None", "str", "int", "bool", "list", "dict", "tuple"}, (
                node.name
            )
    assert set(WORDS) <= names
