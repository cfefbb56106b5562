"""The operators of ai.onnx.ml on numbers, against onnxruntime."""

import numpy as np
import pytest

from tests.relax.frontend.onnx_reference import compare, one_node
from tilesmith.error import FrontendError, OpAttributeUnImplemented, UnsupportedError
from tilesmith.relax.frontend.onnx import from_onnx

RANDOM = np.random.default_rng(8)
ML = "ai.onnx.ml"


def f32(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def floats(*shape):
    return [float(value) for value in f32(*shape).ravel()]


def check(operator, x, outputs=1, **attributes):
    model = one_node(operator, {"x": x}, outputs, domain=ML, **attributes)
    newest = {"T": 3, "L": 4 if operator == "LabelEncoder" else 1}
    model.opset_import[-1].version = newest.get(operator[0], 1)
    return compare(model, {"x": x}, rtol=1e-4, atol=1e-5)


def test_features():
    x = f32(3, 4)
    check("Binarizer", x, threshold=0.3)
    check("Scaler", x, offset=floats(4), scale=floats(4))
    missing = np.where(x > 0.5, np.nan, x).astype("float32")
    check("Imputer", missing, imputed_value_floats=floats(4), replaced_value_float=float("nan"))
    whole = RANDOM.integers(0, 3, (3, 4))
    check("Imputer", whole, imputed_value_int64s=[7], replaced_value_int64=2)
    check("OneHotEncoder", whole, cats_int64s=[2, 0, 5], zeros=1)


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_normalizer(norm):
    check("Normalizer", f32(3, 4), norm=norm)


def test_parts_by_index():
    x, places = f32(3, 4), np.array([2, 0])
    model = one_node("ArrayFeatureExtractor", {"x": x, "i": places}, domain=ML)
    compare(model, {"x": x, "i": places})
    parts = {"a": f32(3, 2), "b": f32(3, 1)}
    model = one_node("FeatureVectorizer", parts, domain=ML, inputdimensions=[2, 1])
    compare(model, parts)


def test_labels():
    keys, values = [5, -1, 3], floats(3)
    whole = RANDOM.integers(-2, 7, (4, 5))
    check("LabelEncoder", whole, keys_int64s=keys, values_floats=values, default_float=0.5)
    x = np.array([1, 2, 2.5, np.nan], "float32")
    numbers = {"keys_floats": [2.5, float("nan"), 1.0], "values_int64s": [4, 5, 6]}
    check("LabelEncoder", x, **numbers, default_int64=-9)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_models(transform):
    x = f32(5, 4)
    options = {"coefficients": floats(3, 4), "intercepts": floats(3), "post_transform": transform}
    check("LinearClassifier", x, 2, classlabels_ints=[4, 2, 7], multi_class=1, **options)
    options = {"coefficients": floats(2, 4), "intercepts": floats(2)}
    check("LinearRegressor", x, targets=2, **options)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_vector_machines(kernel):
    x = f32(6, 4)
    parameters = {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 2.0]}
    check("SVMRegressor", x, n_supports=5, support_vectors=floats(5, 4), rho=[0.7],
          coefficients=floats(5), **parameters)  # fmt: skip
    check("SVMClassifier", x, 2, classlabels_ints=[1, 3, 8], vectors_per_class=[2, 3, 2],
          support_vectors=floats(7, 4), coefficients=floats(2, 7), rho=floats(3),
          **parameters)  # fmt: skip


def trees(mode="BRANCH_LEQ", depth=3, count=4, targets=2, kind="target"):
    """The attributes of full random trees; each leaf has a weight for one target."""
    inner, size = 2**depth - 1, 2 ** (depth + 1) - 1
    ids, owners, features, values, modes, yes, no, leaves = ([] for _ in range(8))
    for tree in range(count):
        for node in range(size):
            is_leaf = node >= inner
            ids.append(node)
            owners.append(tree)
            features.append(0 if is_leaf else int(RANDOM.integers(4)))
            values.append(0.0 if is_leaf else float(f32()))
            modes.append("LEAF" if is_leaf else mode)
            yes.append(0 if is_leaf else 2 * node + 1)
            no.append(0 if is_leaf else 2 * node + 2)
            if is_leaf:
                leaves.append((tree, node, int(RANDOM.integers(targets)), abs(float(f32()))))
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids", f"{kind}_weights")
    return {
        "nodes_nodeids": ids, "nodes_treeids": owners, "nodes_featureids": features,
        "nodes_values": values, "nodes_modes": modes, "nodes_truenodeids": yes,
        "nodes_falsenodeids": no, **dict(zip(names, [list(part) for part in zip(*leaves)])),
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"])
@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_by_trees(mode, how):
    check("TreeEnsembleRegressor", f32(7, 4), n_targets=1, aggregate_function=how,
          base_values=[0.5], **trees(mode, targets=1))  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classification_by_trees(transform):
    check("TreeEnsembleClassifier", f32(7, 4), 2, classlabels_int64s=[3, 1, 9],
          post_transform=transform, **trees(targets=3, kind="class"))  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1])
def test_two_classes_by_trees(sign):
    attributes = trees(targets=1, kind="class")
    attributes["class_weights"] = [sign * weight for weight in attributes["class_weights"]]
    check("TreeEnsembleClassifier", f32(9, 4), 2, classlabels_int64s=[0, 1],
          post_transform="LOGISTIC" if sign < 0 else "NONE", **attributes)  # fmt: skip


def test_texts_and_maps_are_refused():
    x = f32(2, 3)
    model = one_node("ZipMap", {"x": x}, domain=ML, classlabels_int64s=[0, 1, 2])
    with pytest.raises(OpAttributeUnImplemented, match="(?s)sequence of maps.*zipmap"):
        from_onnx(model)
    options = {"coefficients": floats(6), "classlabels_strings": ["a", "b"]}
    model = one_node("LinearClassifier", {"x": x}, 2, domain=ML, **options)
    with pytest.raises((FrontendError, UnsupportedError), match="(?s)labels are texts.*outside"):
        from_onnx(model)
