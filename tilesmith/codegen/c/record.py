"""Registers the C back end: C99 for any machine with a C compiler, without LLVM."""

from tilesmith.target.back_end import BackEnd, register_back_end

__all__ = ["C"]

C = register_back_end(
    BackEnd(
        "c",
        kinds=("c",),
        generate="tilesmith.codegen.c.code:generate",
        kernel_object="tilesmith.codegen.c.code:kernel_object",
        shared_objects="tilesmith.codegen.c.code:shared_objects",
        c_support="tilesmith.codegen.c.c_support:c_support",
        c_support_source="tilesmith.codegen.c.c_support:c_support_source",
        toolchain="tilesmith.codegen.c_compiler:compiler_identity",
        load="tilesmith.runtime.library:Library.from_linked",
        symbol="tilesmith.codegen.c.dialect:identifier",
        intrinsic_rules="tilesmith.tir.transform.intrinsics:C_RULES",
        host_passes=("tilesmith.tir.transform:CommonSubexprElimTIR",),  # the source is often read
        default_schedule="tilesmith.schedule_rules.default:schedule_for_cpu",
        is_for_boards=True,
        describe="tilesmith.codegen.c_compiler:describe_compiler",
    )
)
