"""Code generators for parts of programs, and backends that a class declares (`uma`)."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        name: f"{__name__}.{name}"
        for name in ("cblas", "ccompiler", "dnnl", "examplejson", "json_codegen", "uma")
    },
)
