"""The prelude: lists, options and trees, with the functions that programs expect.

prelude = Prelude(mod)              # adds the definitions to the module
nil = prelude.nil()
mod["main"] = relay.Function([], prelude.map(prelude.id, nil))
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.adt import Constructor
from tilesmith.relay.parser import parse
from tilesmith.support.errors import UnknownMemberError, UnknownNameError
from tilesmith.support.lazy import lazy_attributes, resolve

__all__ = ["Prelude", "import_from_std"]

_ARRAYS = "tilesmith.relay.tensor_arrays"
_LATER = ("StaticTensorArrayOps", "TensorArrayOps", "get_tensor_array_shape")

__getattr__, __dir__ = lazy_attributes(__name__, {name: f"{_ARRAYS}:{name}" for name in _LATER})

_TYPES = """
type List[A] { Cons(A, List[A]), Nil, }
type Option[A] { Some(A), None, }
type Tree[A] { Rose(A, List[Tree[A]]), }
"""

_FUNCTIONS = """
def @id[A](%x: A) -> A { %x }
def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}
def @flip[A, B, C](%f: fn (A, B) -> C) -> fn (B, A) -> C {
  fn (%b: B, %a: A) -> C { %f(%a, %b) }
}
def @hd[A](%xs: List[A]) -> A { match? (%xs) { Cons(%x, _) => %x } }
def @tl[A](%xs: List[A]) -> List[A] { match? (%xs) { Cons(_, %rest) => %rest } }
def @nth[A](%xs: List[A], %n: int32) -> A {
  if (equal(%n, 0)) { @hd(%xs) } else { @nth(@tl(%xs), subtract(%n, 1)) }
}
def @update[A](%xs: List[A], %n: int32, %v: A) -> List[A] {
  if (equal(%n, 0)) { Cons(%v, @tl(%xs)) }
  else { Cons(@hd(%xs), @update(@tl(%xs), subtract(%n, 1), %v)) }
}
def @length[A](%xs: List[A]) -> int32 {
  match (%xs) { Cons(_, %rest) => add(1, @length(%rest)), Nil => 0 }
}
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @filter[A](%f: fn (A) -> bool, %xs: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => {
      let %kept = @filter(%f, %rest);
      if (%f(%x)) { Cons(%x, %kept) } else { %kept }
    },
    Nil => Nil
  }
}
def @zip[A, B](%xs: List[A], %ys: List[B]) -> List[(A, B)] {
  match ((%xs, %ys)) {
    (Cons(%x, %rest), Cons(%y, %others)) => Cons((%x, %y), @zip(%rest, %others)),
    (_, _) => Nil
  }
}
def @foldl[A, B](%f: fn (A, B) -> A, %start: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %rest) => @foldl(%f, %f(%start, %x), %rest), Nil => %start }
}
def @foldr[A, B](%f: fn (A, B) -> B, %start: B, %xs: List[A]) -> B {
  match (%xs) { Cons(%x, %rest) => %f(%x, @foldr(%f, %start, %rest)), Nil => %start }
}
def @foldr1[A](%f: fn (A, A) -> A, %xs: List[A]) -> A {
  match? (%xs) { Cons(%x, Nil) => %x, Cons(%x, %rest) => %f(%x, @foldr1(%f, %rest)) }
}
def @concat[A](%xs: List[A], %ys: List[A]) -> List[A] {
  match (%xs) { Cons(%x, %rest) => Cons(%x, @concat(%rest, %ys)), Nil => %ys }
}
def @rev[A](%xs: List[A]) -> List[A] {
  @foldl(fn (%done: List[A], %x: A) -> List[A] { Cons(%x, %done) }, Nil, %xs)
}
def @map_accumr[A, B, C](%f: fn (A, B) -> (A, C), %start: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %after = @map_accumr(%f, %start, %rest);
      let %here = %f(%after.0, %x);
      (%here.0, Cons(%here.1, %after.1))
    },
    Nil => (%start, Nil)
  }
}
def @map_accuml[A, B, C](%f: fn (A, B) -> (A, C), %start: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %here = %f(%start, %x);
      let %after = @map_accuml(%f, %here.0, %rest);
      (%after.0, Cons(%here.1, %after.1))
    },
    Nil => (%start, Nil)
  }
}
def @unfoldr[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  match (%f(%seed)) { Some(%p) => Cons(%p.1, @unfoldr(%f, %p.0)), None => Nil }
}
def @unfoldl[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  @rev(@unfoldr(%f, %seed))
}
def @sum(%xs: List[int32]) -> int32 {
  @foldl(fn (%a: int32, %b: int32) -> int32 { add(%a, %b) }, 0, %xs)
}
def @tmap[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) {
    Rose(%x, %below) =>
      Rose(%f(%x), @map(fn (%one: Tree[A]) -> Tree[B] { @tmap(%f, %one) }, %below))
  }
}
def @size[A](%t: Tree[A]) -> int32 {
  match (%t) {
    Rose(_, %below) =>
      add(1, @sum(@map(fn (%one: Tree[A]) -> int32 { @size(%one) }, %below)))
  }
}
def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (equal(%n, 0)) { @id } else { @compose(%f, @iterate(%f, subtract(%n, 1))) }
}
"""

_NAT = """
type nat { Z, S(nat), }
def @nat_double(%x: nat) -> nat { match (%x) { S(%y) => S(S(@nat_double(%y))), Z => Z } }
def @nat_triple(%x: nat) -> nat { match (%x) { S(%y) => S(S(S(@nat_triple(%y)))), Z => Z } }
def @nat_add(%x: nat, %y: nat) -> nat { match (%x) { S(%z) => S(@nat_add(%z, %y)), Z => %y } }
def @nat_iterate[A](%f: fn (A) -> A, %n: nat) -> fn (A) -> A {
  match (%n) {
    S(%m) => fn (%x: A) -> A { %f(@nat_iterate(%f, %m)(%x)) },
    Z => fn (%x: A) -> A { %x }
  }
}
"""

_GRADIENT = """
type GradCell[T] { Raw(T), One(fn () -> T), Zero(fn () -> T), }
def @FromGradCell[T](%cell: GradCell[T]) -> T {
  match (%cell) { Raw(%x) => %x, One(%make) => %make(), Zero(%make) => %make() }
}
def @AddGradCell[T](%add: fn (T, T) -> T, %a: GradCell[T], %b: GradCell[T]) -> GradCell[T] {
  match (%a) {
    Zero(_) => %b,
    _ => match (%b) {
      Zero(_) => %a,
      _ => Raw(%add(@FromGradCell(%a), @FromGradCell(%b)))
    }
  }
}
def @MultiplyGradCell[T](%multiply: fn (T, T) -> T, %a: GradCell[T], %b: GradCell[T])
    -> GradCell[T] {
  match (%a) {
    Zero(_) => %a,
    One(_) => %b,
    _ => match (%b) {
      Zero(_) => %b,
      One(_) => %a,
      _ => Raw(%multiply(@FromGradCell(%a), @FromGradCell(%b)))
    }
  }
}
"""

_STANDARD = {"gradient.rly": _GRADIENT, "nat.rly": _NAT, "prelude.rly": _TYPES + _FUNCTIONS}


def import_from_std(mod: IRModule, file_name: str) -> None:
    """Add the definitions of a file of the standard library that the module lacks."""
    if file_name not in _STANDARD:
        known = ", ".join(sorted(_STANDARD))
        raise UnknownNameError(
            f"the standard library has no file '{file_name}'", notes=(f"files: {known}",)
        )
    known_names = {variable.name_hint for variable in mod.get_global_vars()}
    library = parse(_STANDARD[file_name], file_name)
    if not {variable.name_hint for variable in library.get_global_vars()} <= known_names:
        mod.update(library)


class Prelude:
    """Adds the definitions to a module, and finds them: ``prelude.map`` is the variable of a
    function, ``prelude.nil`` a constructor, ``prelude.l`` the type of lists.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.load_prelude()

    def load_prelude(self) -> None:
        """Add the definitions that the module lacks."""
        import_from_std(self.mod, "prelude.rly")
        self.l, self.cons, self.nil = self.mod.get_type("List")
        self.optional, self.some, self.none = self.mod.get_type("Option")
        self.tree, self.rose = self.mod.get_type("Tree")

    # Names: plain ones, those of arrays of tensors of a dtype, and of a dtype and a shape.

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of an operation on arrays of tensors of a dtype."""
        return str(resolve(_ARRAYS + ":dynamic_name")(canonical, dtype))

    def get_name_static(
        self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None
    ) -> str:
        """Return the name of an operation on arrays of tensors of a dtype and a shape."""
        return str(resolve(_ARRAYS + ":static_name")(canonical, dtype, shape, batch_dim))

    def _named(self, canonical: str, dtype: str | None) -> str:
        """Return a name; the operations on arrays of a dtype are added when one is asked for."""
        if dtype is None:
            return canonical
        if self.get_name("tensor_t", dtype) not in self.mod:
            resolve(_ARRAYS + ":TensorArrayOps")(self, dtype).register()
        return self.get_name(canonical, dtype)

    def _static(self, dtype: str, shape: Any, batch_dim: int | None = None) -> Any:
        return resolve(_ARRAYS + ":StaticTensorArrayOps")(self, dtype, shape, batch_dim)

    def get_global_var(self, canonical: str, dtype: str | None = None) -> GlobalVar:
        """Return the variable of a function."""
        return self.mod.get_global_var(self._named(canonical, dtype))

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None
    ) -> GlobalVar:
        """Return the variable of a function of tensors of a shape, which have been registered."""
        found: GlobalVar = self._static(dtype, shape, batch_dim).get_global_var(canonical)
        return found

    def get_type(self, canonical: str, dtype: str | None = None) -> Any:
        """Return the name of a type of data."""
        return self.mod.get_global_type_var(self._named(canonical, dtype))

    def get_type_static(self, canonical: str, dtype: str, shape: Any) -> Any:
        """Return the name of the type of tensors of a shape."""
        return self._static(dtype, shape).get_type(canonical)

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Any) -> Constructor:
        """Return a constructor of a type of tensors of a shape."""
        return self.get_ctor(
            self.get_name_static(ty_name, dtype, shape), self.get_name_static(name, dtype, shape)
        )

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of tensors of a dtype."""
        return self.get_ctor("tensor_t", canonical, dtype)

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Any) -> Constructor:
        """Return a constructor of tensors of a shape."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    def get_ctor(self, ty_name: str, canonical: str, dtype: str | None = None) -> Constructor:
        """Return a constructor of a type."""
        ty_name, name = self._named(ty_name, dtype), self._named(canonical, dtype)
        _, *constructors = self.mod.get_type(ty_name)
        for one in constructors:
            if one.name_hint.lower() == name.lower():
                found: Constructor = one
                return found
        known = ", ".join([one.name_hint for one in constructors])
        raise UnknownMemberError(
            f"the type '{ty_name}' has no constructor '{name}'", notes=(f"constructors: {known}",)
        )

    def __getattr__(self, name: str) -> GlobalVar:
        if not name.startswith("_") and name != "mod" and name in self.mod:
            return self.mod.get_global_var(name)
        raise AttributeError(f"the prelude has no '{name}'")
