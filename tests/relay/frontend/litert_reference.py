"""Runs models by LiteRT, in the environment that has it: `python litert_reference.py FOLDER`.

NAME.npz beside NAME.tflite has the inputs by name; NAME.out.npz gets the results. What LiteRT
refuses to run is named on a line of its own.
"""

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

PLAIN = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES

for path in sorted(Path(sys.argv[1]).glob("*.tflite")):
    try:
        interpreter = Interpreter(str(path), experimental_op_resolver_type=PLAIN)
        interpreter.allocate_tensors()
        with np.load(path.with_suffix(".npz")) as held:
            for one in interpreter.get_input_details():
                interpreter.set_tensor(one["index"], held[one["name"]])
        interpreter.invoke()
        found = [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]
        np.savez(path.with_suffix(".out.npz"), *found)
    except (RuntimeError, ValueError) as error:
        print(path.stem, str(error).replace("\n", " "))
