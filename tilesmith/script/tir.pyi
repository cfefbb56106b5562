"""Made by tools/write_stubs.py from the words of the module; do not edit."""
# fmt: off

from collections.abc import Callable as Callable
from collections.abc import Mapping as Mapping
from collections.abc import Sequence as Sequence
from tilesmith.ir.base_expr import BaseExpr as BaseExpr
from tilesmith.ir.base_expr import RelaxExpr as RelaxExpr
from tilesmith.ir.base_expr import is_relax_expr as is_relax_expr
from tilesmith.ir.call_intrinsics import TVMBackendAllocWorkspace as TVMBackendAllocWorkspace
from tilesmith.ir.call_intrinsics import TVMBackendFreeWorkspace as TVMBackendFreeWorkspace
from tilesmith.ir.call_intrinsics import anylist_getitem as anylist_getitem
from tilesmith.ir.call_intrinsics import anylist_resetitem as anylist_resetitem
from tilesmith.ir.call_intrinsics import anylist_setitem_call_cpacked as anylist_setitem_call_cpacked
from tilesmith.ir.call_intrinsics import anylist_setitem_call_packed as anylist_setitem_call_packed
from tilesmith.ir.call_intrinsics import call_extern as call_extern
from tilesmith.ir.call_intrinsics import call_intrin as call_intrin
from tilesmith.ir.call_intrinsics import call_llvm_intrin as call_llvm_intrin
from tilesmith.ir.call_intrinsics import call_llvm_pure_intrin as call_llvm_pure_intrin
from tilesmith.ir.call_intrinsics import call_pure_extern as call_pure_extern
from tilesmith.ir.call_intrinsics import call_tir as call_tir
from tilesmith.ir.call_intrinsics import end_profile_intrinsic as end_profile_intrinsic
from tilesmith.ir.call_intrinsics import get_active_lane_mask as get_active_lane_mask
from tilesmith.ir.call_intrinsics import get_vscale_expr as get_vscale_expr
from tilesmith.ir.call_intrinsics import handle_add_byte_offset as handle_add_byte_offset
from tilesmith.ir.call_intrinsics import lookup_param as lookup_param
from tilesmith.ir.call_intrinsics import ret as ret
from tilesmith.ir.call_intrinsics import start_profile_intrinsic as start_profile_intrinsic
from tilesmith.ir.call_intrinsics import tvm_access_ptr as tvm_access_ptr
from tilesmith.ir.call_intrinsics import tvm_check_return as tvm_check_return
from tilesmith.ir.call_intrinsics import tvm_stack_alloca as tvm_stack_alloca
from tilesmith.ir.call_intrinsics import tvm_stack_make_array as tvm_stack_make_array
from tilesmith.ir.call_intrinsics import tvm_stack_make_shape as tvm_stack_make_shape
from tilesmith.ir.call_intrinsics import tvm_storage_sync as tvm_storage_sync
from tilesmith.ir.call_intrinsics import tvm_struct_get as tvm_struct_get
from tilesmith.ir.call_intrinsics import tvm_struct_set as tvm_struct_set
from tilesmith.ir.call_intrinsics import tvm_thread_allreduce as tvm_thread_allreduce
from tilesmith.ir.call_intrinsics import tvm_thread_invariant as tvm_thread_invariant
from tilesmith.ir.call_intrinsics import tvm_throw_last_error as tvm_throw_last_error
from tilesmith.ir.call_intrinsics import tvm_tuple as tvm_tuple
from tilesmith.ir.call_intrinsics import tvm_warp_activemask as tvm_warp_activemask
from tilesmith.ir.call_intrinsics import tvm_warp_shuffle as tvm_warp_shuffle
from tilesmith.ir.call_intrinsics import tvm_warp_shuffle_down as tvm_warp_shuffle_down
from tilesmith.ir.call_intrinsics import tvm_warp_shuffle_up as tvm_warp_shuffle_up
from tilesmith.ir.call_intrinsics import type_annotation as type_annotation
from tilesmith.ir.call_intrinsics import vscale as vscale
from tilesmith.ir.device_intrinsics import create_barriers as create_barriers
from tilesmith.ir.device_intrinsics import dp4a as dp4a
from tilesmith.ir.device_intrinsics import make_filled_simdgroup_matrix as make_filled_simdgroup_matrix
from tilesmith.ir.device_intrinsics import mma_fill as mma_fill
from tilesmith.ir.device_intrinsics import mma_store as mma_store
from tilesmith.ir.device_intrinsics import ptx_arrive_barrier as ptx_arrive_barrier
from tilesmith.ir.device_intrinsics import ptx_arrive_barrier_expect_tx as ptx_arrive_barrier_expect_tx
from tilesmith.ir.device_intrinsics import ptx_commit_group as ptx_commit_group
from tilesmith.ir.device_intrinsics import ptx_cp_async as ptx_cp_async
from tilesmith.ir.device_intrinsics import ptx_cp_async_barrier as ptx_cp_async_barrier
from tilesmith.ir.device_intrinsics import ptx_cp_async_bulk as ptx_cp_async_bulk
from tilesmith.ir.device_intrinsics import ptx_cp_async_bulk_tensor as ptx_cp_async_bulk_tensor
from tilesmith.ir.device_intrinsics import ptx_fence_proxy_async as ptx_fence_proxy_async
from tilesmith.ir.device_intrinsics import ptx_init_barrier_thread_count as ptx_init_barrier_thread_count
from tilesmith.ir.device_intrinsics import ptx_ldmatrix as ptx_ldmatrix
from tilesmith.ir.device_intrinsics import ptx_mma as ptx_mma
from tilesmith.ir.device_intrinsics import ptx_mma_sp as ptx_mma_sp
from tilesmith.ir.device_intrinsics import ptx_wait_barrier as ptx_wait_barrier
from tilesmith.ir.device_intrinsics import ptx_wait_group as ptx_wait_group
from tilesmith.ir.device_intrinsics import ptx_wgmma as ptx_wgmma
from tilesmith.ir.device_intrinsics import ptx_wgmma_commit_group as ptx_wgmma_commit_group
from tilesmith.ir.device_intrinsics import ptx_wgmma_fence as ptx_wgmma_fence
from tilesmith.ir.device_intrinsics import ptx_wgmma_wait_group as ptx_wgmma_wait_group
from tilesmith.ir.device_intrinsics import simdgroup_load as simdgroup_load
from tilesmith.ir.device_intrinsics import simdgroup_multiply_accumulate as simdgroup_multiply_accumulate
from tilesmith.ir.device_intrinsics import simdgroup_store as simdgroup_store
from tilesmith.ir.device_intrinsics import tvm_bmma_sync as tvm_bmma_sync
from tilesmith.ir.device_intrinsics import tvm_fill_fragment as tvm_fill_fragment
from tilesmith.ir.device_intrinsics import tvm_load_matrix_sync as tvm_load_matrix_sync
from tilesmith.ir.device_intrinsics import tvm_mma_sync as tvm_mma_sync
from tilesmith.ir.device_intrinsics import tvm_store_matrix_sync as tvm_store_matrix_sync
from tilesmith.ir.device_intrinsics import vectorcombine as vectorcombine
from tilesmith.ir.device_intrinsics import vectorhigh as vectorhigh
from tilesmith.ir.device_intrinsics import vectorlow as vectorlow
from tilesmith.ir.expr import Add as Add
from tilesmith.ir.expr import And as And
from tilesmith.ir.expr import BinaryOp as BinaryOp
from tilesmith.ir.expr import Broadcast as Broadcast
from tilesmith.ir.expr import Broadcast as broadcast
from tilesmith.ir.expr import Call as Call
from tilesmith.ir.expr import Cast as Cast
from tilesmith.ir.expr import CompareOp as CompareOp
from tilesmith.ir.expr import ConstExpr as ConstExpr
from tilesmith.ir.expr import Div as Div
from tilesmith.ir.expr import EQ as EQ
from tilesmith.ir.expr import FloatImm as FloatImm
from tilesmith.ir.expr import FloorDiv as FloorDiv
from tilesmith.ir.expr import FloorMod as FloorMod
from tilesmith.ir.expr import GE as GE
from tilesmith.ir.expr import GT as GT
from tilesmith.ir.expr import GlobalVar as GlobalVar
from tilesmith.ir.expr import IntImm as IntImm
from tilesmith.ir.expr import LE as LE
from tilesmith.ir.expr import LT as LT
from tilesmith.ir.expr import LogicalOp as LogicalOp
from tilesmith.ir.expr import Max as Max
from tilesmith.ir.expr import Min as Min
from tilesmith.ir.expr import Mod as Mod
from tilesmith.ir.expr import Mul as Mul
from tilesmith.ir.expr import NE as NE
from tilesmith.ir.expr import Not as Not
from tilesmith.ir.expr import Or as Or
from tilesmith.ir.expr import PrimExpr as ExprWithOp
from tilesmith.ir.expr import PrimExpr as PrimExpr
from tilesmith.ir.expr import Ramp as Ramp
from tilesmith.ir.expr import Ramp as ramp
from tilesmith.ir.expr import Range as Range
from tilesmith.ir.expr import Select as Select
from tilesmith.ir.expr import Shuffle as Shuffle
from tilesmith.ir.expr import SizeVar as SizeVar
from tilesmith.ir.expr import StringImm as StringImm
from tilesmith.ir.expr import Sub as Sub
from tilesmith.ir.expr import Var as Var
from tilesmith.ir.expr import convert as convert
from tilesmith.ir.expr_op import ExprOp as ExprOp
from tilesmith.ir.intrinsics import abs as abs
from tilesmith.ir.intrinsics import abs as fabs
from tilesmith.ir.intrinsics import acos as acos
from tilesmith.ir.intrinsics import acosh as acosh
from tilesmith.ir.intrinsics import all as all
from tilesmith.ir.intrinsics import any as any
from tilesmith.ir.intrinsics import asin as asin
from tilesmith.ir.intrinsics import asinh as asinh
from tilesmith.ir.intrinsics import assume as assume
from tilesmith.ir.intrinsics import atan as atan
from tilesmith.ir.intrinsics import atan2 as atan2
from tilesmith.ir.intrinsics import atanh as atanh
from tilesmith.ir.intrinsics import ceil as ceil
from tilesmith.ir.intrinsics import ceildiv as ceildiv
from tilesmith.ir.intrinsics import checked as checked
from tilesmith.ir.intrinsics import clz as clz
from tilesmith.ir.intrinsics import copysign as copysign
from tilesmith.ir.intrinsics import cos as cos
from tilesmith.ir.intrinsics import cosh as cosh
from tilesmith.ir.intrinsics import div as div
from tilesmith.ir.intrinsics import dot_bf16bf16 as dot_bf16bf16
from tilesmith.ir.intrinsics import dot_i16i16 as dot_i16i16
from tilesmith.ir.intrinsics import dot_i8i8 as dot_i8i8
from tilesmith.ir.intrinsics import dot_u8i8 as dot_u8i8
from tilesmith.ir.intrinsics import erf as erf
from tilesmith.ir.intrinsics import exp as exp
from tilesmith.ir.intrinsics import exp10 as exp10
from tilesmith.ir.intrinsics import exp2 as exp2
from tilesmith.ir.intrinsics import floor as floor
from tilesmith.ir.intrinsics import fmod as fmod
from tilesmith.ir.intrinsics import hypot as hypot
from tilesmith.ir.intrinsics import if_then_else as if_then_else
from tilesmith.ir.intrinsics import indexdiv as indexdiv
from tilesmith.ir.intrinsics import indexmod as indexmod
from tilesmith.ir.intrinsics import infinity as infinity
from tilesmith.ir.intrinsics import isfinite as isfinite
from tilesmith.ir.intrinsics import isinf as isinf
from tilesmith.ir.intrinsics import isnan as isnan
from tilesmith.ir.intrinsics import isnullptr as isnullptr
from tilesmith.ir.intrinsics import large_uint_imm as large_uint_imm
from tilesmith.ir.intrinsics import ldexp as ldexp
from tilesmith.ir.intrinsics import likely as likely
from tilesmith.ir.intrinsics import log as log
from tilesmith.ir.intrinsics import log10 as log10
from tilesmith.ir.intrinsics import log1p as log1p
from tilesmith.ir.intrinsics import log2 as log2
from tilesmith.ir.intrinsics import max_value as max_value
from tilesmith.ir.intrinsics import min_value as min_value
from tilesmith.ir.intrinsics import nearbyint as nearbyint
from tilesmith.ir.intrinsics import nextafter as nextafter
from tilesmith.ir.intrinsics import popcount as popcount
from tilesmith.ir.intrinsics import power as pow
from tilesmith.ir.intrinsics import power as power
from tilesmith.ir.intrinsics import q_multiply_shift as q_multiply_shift
from tilesmith.ir.intrinsics import q_multiply_shift_per_axis as q_multiply_shift_per_axis
from tilesmith.ir.intrinsics import reinterpret as reinterpret
from tilesmith.ir.intrinsics import round as round
from tilesmith.ir.intrinsics import rsqrt as rsqrt
from tilesmith.ir.intrinsics import sigmoid as sigmoid
from tilesmith.ir.intrinsics import sin as sin
from tilesmith.ir.intrinsics import sinh as sinh
from tilesmith.ir.intrinsics import sqrt as sqrt
from tilesmith.ir.intrinsics import tan as tan
from tilesmith.ir.intrinsics import tanh as tanh
from tilesmith.ir.intrinsics import trunc as trunc
from tilesmith.ir.intrinsics import undef as undef
from tilesmith.ir.op import CallEffectKind as CallEffectKind
from tilesmith.ir.operators import add as add
from tilesmith.ir.operators import bitwise_and as bitwise_and
from tilesmith.ir.operators import bitwise_not as bitwise_not
from tilesmith.ir.operators import bitwise_or as bitwise_or
from tilesmith.ir.operators import bitwise_xor as bitwise_xor
from tilesmith.ir.operators import const as const
from tilesmith.ir.operators import divide as divide
from tilesmith.ir.operators import floordiv as floordiv
from tilesmith.ir.operators import floormod as floormod
from tilesmith.ir.operators import multiply as multiply
from tilesmith.ir.operators import shift_left as shift_left
from tilesmith.ir.operators import shift_right as shift_right
from tilesmith.ir.operators import subtract as subtract
from tilesmith.ir.operators import truncdiv as truncdiv
from tilesmith.ir.operators import truncmod as truncmod
from tilesmith.ir.types import TupleType as TupleType
from tilesmith.runtime.dtype import DataType as DataType
from tilesmith.script.builder import IRBuilder as IRBuilder
from tilesmith.script.diagnostics import nearest as nearest
from tilesmith.script.macros import ScriptMacro as TIRMacro
from tilesmith.script.macros import macro as inline
from tilesmith.script.macros import macro as macro
from tilesmith.script.tir_blocks import axis as axis
from tilesmith.script.tir_blocks import block as block
from tilesmith.script.tir_blocks import block as sblock
from tilesmith.script.tir_blocks import block_attr as block_attr
from tilesmith.script.tir_blocks import block_attr as sblock_attr
from tilesmith.script.tir_blocks import domain_of as domain_of
from tilesmith.script.tir_blocks import init as init
from tilesmith.script.tir_blocks import reads as reads
from tilesmith.script.tir_blocks import where as where
from tilesmith.script.tir_blocks import writes as writes
from tilesmith.script.tir_entry import PrimFuncDecorator as _PrimFuncDecorator
from tilesmith.script.tir_frames import AllocateConstFrame as AllocateConstFrame
from tilesmith.script.tir_frames import AllocateFrame as AllocateFrame
from tilesmith.script.tir_frames import AssertFrame as AssertFrame
from tilesmith.script.tir_frames import AttrFrame as AttrFrame
from tilesmith.script.tir_frames import BlockFrame as BlockFrame
from tilesmith.script.tir_frames import DeclBufferFrame as DeclBufferFrame
from tilesmith.script.tir_frames import ElseFrame as ElseFrame
from tilesmith.script.tir_frames import IfFrame as IfFrame
from tilesmith.script.tir_frames import LaunchThreadFrame as LaunchThreadFrame
from tilesmith.script.tir_frames import LetFrame as LetFrame
from tilesmith.script.tir_frames import PrimFuncFrame as PrimFuncFrame
from tilesmith.script.tir_frames import RealizeFrame as RealizeFrame
from tilesmith.script.tir_frames import ThenFrame as ThenFrame
from tilesmith.script.tir_frames import WhileFrame as WhileFrame
from tilesmith.script.tir_frames import emit as emit
from tilesmith.script.tir_loops import check_thread as check_thread
from tilesmith.script.tir_loops import check_threads as check_threads
from tilesmith.script.tir_loops import grid as grid
from tilesmith.script.tir_loops import parallel as parallel
from tilesmith.script.tir_loops import serial as serial
from tilesmith.script.tir_loops import thread_binding as thread_binding
from tilesmith.script.tir_loops import unroll as unroll
from tilesmith.script.tir_loops import vectorized as vectorized
from tilesmith.script.tir_types import BufferDeclWord as BufferDeclWord
from tilesmith.script.tir_types import BufferDeclWord as _BufferDeclWord
from tilesmith.script.tir_types import BufferWord as BufferProxy
from tilesmith.script.tir_types import BufferWord as BufferWord
from tilesmith.script.tir_types import BufferWord as _BufferWord
from tilesmith.script.tir_types import DTypeWord as DTypeWord
from tilesmith.script.tir_types import DTypeWord as _DTypeWord
from tilesmith.script.tir_types import HandleWord as HandleWord
from tilesmith.script.tir_types import HandleWord as _HandleWord
from tilesmith.script.tir_types import PtrWord as PtrProxy
from tilesmith.script.tir_types import PtrWord as PtrWord
from tilesmith.script.tir_types import PtrWord as _PtrWord
from tilesmith.script.tir_types import as_type as as_type
from tilesmith.script.tir_types import load_of as load_of
from tilesmith.script.tir_types import parameter_of as parameter_of
from tilesmith.script.tir_types import region_of as region_of
from tilesmith.support.errors import ScriptError as ScriptError
from tilesmith.support.errors import TypeMismatchError as TypeMismatchError
from tilesmith.support.errors import UnknownMemberError as UnknownMemberError
from tilesmith.support.errors import UnsupportedError as UnsupportedError
from tilesmith.target.target import Target as Target
from tilesmith.tir.expr import BufferLoad as BufferLoad
from tilesmith.tir.expr import BufferRegion as BufferRegion
from tilesmith.tir.expr import CommReducer as CommReducer
from tilesmith.tir.expr import IterVar as IterVar
from tilesmith.tir.expr import IterVarType as IterVarType
from tilesmith.tir.expr import ProducerLoad as ProducerLoad
from tilesmith.tir.expr import Reduce as Reduce
from tilesmith.tir.expr import buffer_slice as buffer_slice
from tilesmith.tir.op import address_of as address_of
from tilesmith.tir.op import call_cpacked as call_cpacked
from tilesmith.tir.op import call_cpacked as tvm_call_cpacked
from tilesmith.tir.op import call_cpacked_lowered as call_cpacked_lowered
from tilesmith.tir.op import call_cpacked_lowered as tvm_call_cpacked_lowered
from tilesmith.tir.op import call_packed as call_packed
from tilesmith.tir.op import call_packed as tvm_call_packed
from tilesmith.tir.op import call_packed_lowered as call_packed_lowered
from tilesmith.tir.op import call_packed_lowered as tvm_call_packed_lowered
from tilesmith.tir.op import sum as sum
from tilesmith.tir.op import trace as trace
from tilesmith.tir.stmt import BufferStore as BufferStore
from tilesmith.tir.stmt import Evaluate as Evaluate
from tilesmith.tir.stmt import MatchBufferRegion as MatchBufferRegion
from tilesmith.tir.stmt import Prefetch as Prefetch
from typing import Any as Any

Buffer: _BufferWord
Ptr: _PtrWord
bfloat16: _DTypeWord
bfloat16x16: _DTypeWord
bfloat16x2: _DTypeWord
bfloat16x32: _DTypeWord
bfloat16x4: _DTypeWord
bfloat16x64: _DTypeWord
bfloat16x8: _DTypeWord
bool: _DTypeWord
boolean: _DTypeWord
buffer: _BufferWord
buffer_decl: _BufferDeclWord
e4m3_float8: _DTypeWord
e4m3_float8x16: _DTypeWord
e4m3_float8x2: _DTypeWord
e4m3_float8x32: _DTypeWord
e4m3_float8x4: _DTypeWord
e4m3_float8x64: _DTypeWord
e4m3_float8x8: _DTypeWord
e5m2_float8: _DTypeWord
e5m2_float8x16: _DTypeWord
e5m2_float8x2: _DTypeWord
e5m2_float8x32: _DTypeWord
e5m2_float8x4: _DTypeWord
e5m2_float8x64: _DTypeWord
e5m2_float8x8: _DTypeWord
float16: _DTypeWord
float16x16: _DTypeWord
float16x2: _DTypeWord
float16x32: _DTypeWord
float16x4: _DTypeWord
float16x64: _DTypeWord
float16x8: _DTypeWord
float32: _DTypeWord
float32x16: _DTypeWord
float32x2: _DTypeWord
float32x32: _DTypeWord
float32x4: _DTypeWord
float32x64: _DTypeWord
float32x8: _DTypeWord
float64: _DTypeWord
float64x16: _DTypeWord
float64x2: _DTypeWord
float64x32: _DTypeWord
float64x4: _DTypeWord
float64x64: _DTypeWord
float64x8: _DTypeWord
float8_e4m3fn: _DTypeWord
float8_e4m3fnx16: _DTypeWord
float8_e4m3fnx2: _DTypeWord
float8_e4m3fnx32: _DTypeWord
float8_e4m3fnx4: _DTypeWord
float8_e4m3fnx64: _DTypeWord
float8_e4m3fnx8: _DTypeWord
float8_e5m2: _DTypeWord
float8_e5m2x16: _DTypeWord
float8_e5m2x2: _DTypeWord
float8_e5m2x32: _DTypeWord
float8_e5m2x4: _DTypeWord
float8_e5m2x64: _DTypeWord
float8_e5m2x8: _DTypeWord
handle: _HandleWord
int16: _DTypeWord
int16x16: _DTypeWord
int16x2: _DTypeWord
int16x32: _DTypeWord
int16x4: _DTypeWord
int16x64: _DTypeWord
int16x8: _DTypeWord
int32: _DTypeWord
int32x16: _DTypeWord
int32x2: _DTypeWord
int32x32: _DTypeWord
int32x4: _DTypeWord
int32x64: _DTypeWord
int32x8: _DTypeWord
int64: _DTypeWord
int64x16: _DTypeWord
int64x2: _DTypeWord
int64x32: _DTypeWord
int64x4: _DTypeWord
int64x64: _DTypeWord
int64x8: _DTypeWord
int8: _DTypeWord
int8x16: _DTypeWord
int8x2: _DTypeWord
int8x32: _DTypeWord
int8x4: _DTypeWord
int8x64: _DTypeWord
int8x8: _DTypeWord
prim_func: _PrimFuncDecorator
ptr: _PtrWord
uint16: _DTypeWord
uint16x16: _DTypeWord
uint16x2: _DTypeWord
uint16x32: _DTypeWord
uint16x4: _DTypeWord
uint16x64: _DTypeWord
uint16x8: _DTypeWord
uint32: _DTypeWord
uint32x16: _DTypeWord
uint32x2: _DTypeWord
uint32x32: _DTypeWord
uint32x4: _DTypeWord
uint32x64: _DTypeWord
uint32x8: _DTypeWord
uint64: _DTypeWord
uint64x16: _DTypeWord
uint64x2: _DTypeWord
uint64x32: _DTypeWord
uint64x4: _DTypeWord
uint64x64: _DTypeWord
uint64x8: _DTypeWord
uint8: _DTypeWord
uint8x16: _DTypeWord
uint8x2: _DTypeWord
uint8x32: _DTypeWord
uint8x4: _DTypeWord
uint8x64: _DTypeWord
uint8x8: _DTypeWord
void: _DTypeWord

def Assert(condition: Any, message: Any) -> AssertFrame:
    """Assert a condition for the rest of the block."""

def Else() -> ElseFrame:
    """Open the statements that run if the condition does not hold."""

def If(condition: Any) -> IfFrame:
    """Open a branch, with ``Then`` and ``Else`` inside."""

def Let(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """Return an expression with variables bound in it: ``T.Let(x + 1, where={x: y * 2})``."""

def LetStmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> LetFrame:
    """Bind a variable to a value for the rest of the block."""

def Then() -> ThenFrame:
    """Open the statements that run if the condition holds."""

def Tuple(*fields: Any) -> TupleType:
    """Return the type of a tuple: ``T.Tuple(T.int32, T.float32)``."""

def While(condition: Any) -> WhileFrame:
    """Open a loop that runs while the condition holds."""

def alloc_buffer(shape: Any, dtype: str = 'float32', data: Var | None = None, strides: Any = None, elem_offset: Any = None, scope: str = 'global', align: int = -1, offset_factor: int = 0, buffer_type: str = 'default', axis_separators: Any = None) -> Any:
    """Allocate a buffer in the enclosing block, or in the root block."""

def allocate(extents: Any, dtype: str, scope: str = 'global', condition: Any = None, annotations: Mapping[str, Any] | None = None, pointer: Any = None) -> AllocateFrame:
    """Allocate memory for the rest of the block; return the pointer (``pointer``: its type)."""

def allocate_const(data: Any, dtype: str, extents: Any, annotations: Mapping[str, Any] | None = None, pointer: Any = None) -> AllocateConstFrame:
    """Allocate constant memory for the rest of the block; return the pointer."""

def arg(name: str, obj: Any) -> Any:
    """Add a parameter, a buffer or a variable, to the function; return what the body uses."""

def attr(node: Any, attr_key: str, value: Any) -> AttrFrame:
    """Set an attribute for the rest of the block."""

def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store a value: ``buffer[indices] = value``; a value of another dtype is converted, but a"""

def buffer_var(dtype: str, storage_scope: str = 'global') -> Var:
    """Return a new pointer."""

def call_kernel(kernel: Any, launch_args: Any, *args: Any, **kwargs: Any) -> PrimExpr:
    """Raise an error: kernels of another compiler inside a script are not supported."""

def cast(value: Any, dtype: str) -> PrimExpr:
    """Convert a value to a dtype."""

def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> CommReducer:
    """Return a combiner: ``T.comm_reducer(lambda x, y: x + y, [T.float32(0)])``."""

def decl_buffer(shape: Any, dtype: str = 'float32', data: Var | None = None, strides: Any = None, elem_offset: Any = None, scope: str = 'global', align: int = 0, offset_factor: int = 0, buffer_type: str = '', axis_separators: Any = None) -> DeclBufferFrame:
    """Declare a buffer over memory (new without ``data``) for the rest of the block."""

def env_thread(thread_tag: str, dtype: str = 'int32') -> IterVar:
    """Return an iterator over threads of a GPU, for ``launch_thread``."""

def evaluate(value: Any) -> None:
    """Evaluate an expression for its side effect."""

def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the function."""

def func_gen(name: str) -> DTypeWord:
    """Return the word for a data type: ``T.func_gen("int8")`` is ``T.int8``."""

def func_name(name: str) -> None:
    """Set the name of the function."""

def func_ret(ret_type: Any) -> None:
    """Set the return type of the function."""

def index_map(mapping: Callable[..., Any], *, inverse_index_map: Any = None, index_dtype: str = 'int64') -> Any:
    """Return a mapping of indices: ``T.index_map(lambda i, j: (i // 4, j, i % 4))``."""

def iter_var(v: Any, dom: Any, iter_type: Any, thread_tag: str) -> IterVar:
    """Return an iterator."""

def launch_thread(thread: Any, extent: Any) -> LaunchThreadFrame:
    """Run the rest of the block on a number of threads; return the variable that counts them."""

def let(v: Var, value: Any, body: Any = None) -> Any:
    """Open a ``LetStmt``; with ``body``, return the expression ``Let``."""

def llvm_lookup_intrinsic_id(name: str) -> str:
    """Return the name that identifies an LLVM intrinsic in ``T.call_llvm_intrin``."""

def match_buffer(param: Any, shape: Any = None, dtype: str = 'float32', data: Var | None = None, strides: Any = None, elem_offset: Any = None, scope: str = 'global', align: int = -1, offset_factor: int = 0, buffer_type: str = 'default', axis_separators: Any = None) -> Any:
    """Return the buffer of a handle parameter, or a name for a region inside a block."""

def max(a: Any, b: Any) -> PrimExpr:
    """Return the larger of two values."""

class meta_var:
    """Keep ``x`` in ``x = T.meta_var(value)`` a name of the parser; no variable is made."""
    def __init__(self, value: Any) -> None: ...

def min(a: Any, b: Any) -> PrimExpr:
    """Return the smaller of two values."""

def prefetch(buffer: Any, bounds: Any, locality: int = 3, cache: int = 1) -> Any:
    """Hint that a region is needed soon. With an address it is the instruction of that name."""

def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> RealizeFrame:
    """Declare the part of a buffer that is live in the rest of the block."""

def reduce(combiner: CommReducer, source: Sequence[Any], init: Sequence[Any], axis: Sequence[IterVar], condition: Any, value_index: int) -> Any:
    """Return one value of a reduction over iterators, as tensor expressions have it."""

def sblock_alloc_buffer(shape: Any, dtype: str = 'float32', data: Var | None = None, strides: Any = None, elem_offset: Any = None, scope: str = 'global', align: int = -1, offset_factor: int = 0, buffer_type: str = 'default', axis_separators: Any = None) -> Any:
    """Allocate a buffer in the enclosing block, or in the root block."""

def target(target_config: Any, host: Any = None) -> Target:
    """Return a target, from a dictionary or a text."""

def var(dtype: str, name: str = '') -> Var:
    """Return a new variable."""
