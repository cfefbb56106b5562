import sys
import threading

import pytest

from tilesmith.support.errors import ConfigError, UnknownNameError
from tilesmith.support.registry import Registry


def test_register_and_get():
    table = Registry("operator")
    table.register("add", 1)

    @table.register("mul")
    def mul():
        return 2

    assert table.get("add") == 1
    assert table["mul"] is mul
    assert table.names() == ["add", "mul"]
    assert "add" in table and "sub" not in table
    assert table.get("sub", None) is None
    assert len(table) == 2 and list(table) == ["add", "mul"]


def test_second_registration_needs_override():
    table = Registry("operator")
    table.register("add", 1)
    with pytest.raises(ConfigError, match="'add' is registered already"):
        table.register("add", 2)
    table.register("add", 2, override=True)
    assert table.get("add") == 2
    table.remove("add")
    table.remove("add")
    assert "add" not in table


def test_miss_names_the_nearest():
    table = Registry("operator")
    table.register("relax.add", 1)
    with pytest.raises(UnknownNameError, match="(?s)unknown operator 'relax.ad'\n.*'relax.add'"):
        table.get("relax.ad")


@pytest.fixture
def provider(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "registry_under_test", Registry("thing"), raising=False)
    (tmp_path / "provider_of_things.py").write_text(
        "import sys\nsys.registry_under_test.register('deep.x', 5)\n"
    )
    yield sys.registry_under_test
    sys.modules.pop("provider_of_things", None)


def test_a_miss_asks_the_providers(provider):
    provider.provide("deep.", "provider_of_things")
    assert "provider_of_things" not in sys.modules
    assert provider.get("other", 1) == 1
    assert "provider_of_things" not in sys.modules
    assert provider.get("deep.x") == 5
    with pytest.raises(UnknownNameError):
        provider.get("deep.y")


def test_names_can_load_the_providers(provider):
    provider.provide("deep.", "provider_of_things")
    assert provider.names() == []
    assert provider.names(load=True) == ["deep.x"]


def test_writers_do_not_lose_entries():
    table = Registry("number")

    def write(start):
        for number in range(start, start + 500):
            table.register(number, str(number))

    threads = [threading.Thread(target=write, args=(k * 500,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table) == 2000
