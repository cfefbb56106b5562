"""Shows programs of Relay as graphs: on the terminal, in DOT, as a page for browsers.

    RelayVisualizer(mod).render()                                   # prints trees
    RelayVisualizer(mod, plotter=DotPlotter()).render("graph")      # writes graph_main.dot
    RelayVisualizer(mod, plotter=HtmlPlotter()).render("graph")     # writes graph.html

A parser says which nodes and edges an expression becomes, a plotter what they look like; programs
may bring both.
"""

from typing import Dict  # noqa: UP035 # a name that users import from here

from tilesmith import relay
from tilesmith.inspect.relay_viz.dot import DotPlotter, DotVizParser
from tilesmith.inspect.relay_viz.html import HtmlPlotter
from tilesmith.inspect.relay_viz.interface import Plotter, VizGraph, VizParser
from tilesmith.inspect.relay_viz.terminal import TermPlotter, TermVizParser
from tilesmith.inspect.relay_viz.visualizer import RelayVisualizer

__all__ = [
    "Dict", "DotPlotter", "DotVizParser", "HtmlPlotter", "Plotter", "RelayVisualizer",
    "TermPlotter", "TermVizParser", "VizGraph", "VizParser", "relay",
]  # fmt: skip
