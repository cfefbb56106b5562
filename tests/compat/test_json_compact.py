"""Updaters of the JSON that versions of TVM saved."""

from __future__ import annotations

import copy

import pytest

from tilesmith.compat.tvm import json_compact as compact
from tilesmith.support.errors import ArtifactError


def graph(version, *nodes):
    return {
        "root": len(nodes),
        "nodes": [{"type_key": ""}, *copy.deepcopy(list(nodes))],
        "b64ndarrays": [],
        "attrs": {"tvm_version": version},
    }


def node(kind, **fields):
    return {"type_key": kind, "attrs": fields}


TEXT = {"type_key": "runtime.String"}


@pytest.mark.parametrize(
    "name, version, before, after",
    [
        ("06_to_07", "0.7", [node("Variable", dtype="int32")], [node("tir.Var", dtype="int32")]),
        ("06_to_07", "0.7", [node("relay.Tuple", fields="0")], [node("relay.Tuple", fields="0")]),
        (
            "06_to_07", "0.7", [node("relay.GlobalVar", name_hint="main")],
            [node("GlobalVar", name_hint="2"), TEXT | {"repr_str": "main"}],
        ),
        (
            "06_to_07", "0.7", [{"type_key": "relay.Op", "global_key": "nn.relu"}],
            [{"type_key": "Op", "repr_str": "nn.relu"}],
        ),
        ("07_to_08", "0.8", [node("IRModule")], [node("IRModule", attrs="0")]),
        (
            "08_to_09", "0.9", [node("relay.Var", vid="0"), node("relay.Id")],
            [node("relay.Var", vid="0", virtual_device_="0"), node("relay.Id")],
        ),
        (
            "15_to_16", "0.16", [node("tir.Ramp", base="0", lanes="4")],
            [
                node("tir.Ramp", base="0", lanes="2"),
                node("IntImm", dtype="int32", span="0", value="4"),
            ],
        ),
        ("16_to_17", "0.17", [node("tir.BufferLoad")], [node("tir.BufferLoad", predicate="0")]),
    ],
)  # fmt: skip
def test_updaters(name, version, before, after):
    old = {"06": "0.6.0", "07": "0.7.dev1", "08": "0.8.0", "15": "0.15.0", "16": "0.16.0"}[name[:2]]
    data = graph(old, *before)
    kept = copy.deepcopy(data)
    made = getattr(compact, "create_updater_" + name)()(data)
    assert data == kept and made["nodes"][1:] == after
    assert made["attrs"]["tvm_version"] == version and made["root"] == len(before)


def test_updaters_follow_each_other():
    data = graph("0.7.0", node("IRModule"), node("relay.Var"))
    made = compact.create_updater_08_to_09()(compact.create_updater_07_to_08()(data))
    assert made["nodes"][1]["attrs"] == {"attrs": "0"}
    assert made["nodes"][2]["attrs"] == {"virtual_device_": "0"}


def test_several_changes_of_a_node_apply_in_order():
    def add(letter):
        def change(one, nodes):
            return {**one, "seen": one.get("seen", "") + letter}

        return change

    update = compact.create_updater({"X": [add("a"), add("b")], "Y": add("c")}, "1.", "2.0")
    made = update(graph("1.5", node("X"), node("Y"), node("Z")))
    assert [one.get("seen") for one in made["nodes"]] == [None, "ab", "c", None]


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("08_to_09", graph("0.7.0"), r"updates programs of TVM 0\.8, .* saved by 0\.7\.0"),
        ("08_to_09", {"nodes": []}, "an unknown version"),
        ("08_to_09", {"root": 1}, "no list 'nodes'"),
        ("13_to_14", graph("0.13.0"), r"0\.13 cannot be updated to 0\.14"),
        ("13_to_14", graph("0.12.0"), r"updates programs of TVM 0\.13"),
        ("06_to_07", graph("0.6.0", node("Call", name="f")), "a node 'Call' of TVM 0.6"),
        ("06_to_07", graph("0.6.0", node("For")), "a node 'For' of TVM 0.6"),
    ],
)
def test_refusals(name, data, message):
    with pytest.raises(ArtifactError, match=message):
        getattr(compact, "create_updater_" + name)()(data)
