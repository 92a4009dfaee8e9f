"""Networks of whole numbers and of several inputs: the same fusions as of networks that take what these become."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from retrofit_core import METHODS, compare, giving_logits
from retrofit_core.networks.inputs import each_of
from tests.marks import each_case, spread
from tests.networks import initialised, labels, normal

pytestmark = pytest.mark.slow

TOKENS, LENGTH = 9, 6
IDS = torch.randint(TOKENS, (80, LENGTH), generator=torch.Generator().manual_seed(0))
IDS[:TOKENS, 0] = torch.arange(TOKENS)  # every token occurs
Y = labels(80, 3)


class Words(nn.Module):
    """Tokens, a convolution over them, a mean."""

    def __init__(self, one_hot: bool = False) -> None:
        super().__init__()
        self.table = nn.Linear(TOKENS, 5, bias=False) if one_hot else nn.Embedding(TOKENS, 5)
        self.conv, self.head = nn.Conv1d(5, 6, 3, padding=1), nn.Linear(6, 3)

    def forward(self, ids):
        return self.head(self.conv(self.table(ids).transpose(1, 2)).relu().mean(2))


class Masked(nn.Module):
    """A dict batch, as Hugging Face's networks take it: some tokens do not count, and the output is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.kinds, self.up = nn.Embedding(TOKENS, 5), nn.Embedding(2, 5), nn.Linear(5, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, input_ids, attention_mask=None, kinds=None):
        h = self.up(self.tokens(input_ids) + self.kinds(kinds)).relu() * attention_mask[..., None]
        return {"logits": self.head(h.sum(1) / attention_mask.sum(1, keepdim=True)), "features": h}


class Two(nn.Module):
    """Two tensors of floating-point numbers, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.up, self.head = nn.Linear(4, 6), nn.Linear(10, 6), nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, left, right):
        return self.head(self.up((self.left(left) + self.right(right.flatten(1))).relu()).relu())


class Numbers(nn.Module):
    """A category, a time and a flag, each one number for a sample, as a column or without an axis of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.up, self.head = nn.Embedding(TOKENS, 5), nn.Linear(6, 7), nn.Linear(7, 3)

    def forward(self, user, time, flag):
        h = self.up(torch.cat([self.table(user.flatten()), time.reshape(-1, 1)], 1)).relu()
        return self.head(h * flag.reshape(-1, 1))


def pair(make, *seeds):
    return [initialised(make(), seed) for seed in seeds or (0, 1)]


def mask():
    counted = torch.rand(80, LENGTH, generator=torch.Generator().manual_seed(1)) > 0.3
    counted[:, 0] = True
    return {"input_ids": IDS, "attention_mask": counted, "kinds": IDS % 2}


INPUTS = {"tokens": (Words, IDS), "dict": (Masked, mask()), "tuple": (Two, (normal(80, 4), normal(80, 2, 5, seed=1)))}


def run(model, inputs):
    output = (
        model(**inputs) if isinstance(inputs, dict) else model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    )
    return output["logits"] if isinstance(output, dict) else output


def cut(inputs, rows):
    if isinstance(inputs, dict):
        return {name: tensor[rows] for name, tensor in inputs.items()}
    return tuple(tensor[rows] for tensor in inputs) if isinstance(inputs, tuple) else inputs[rows]


# --- oracles ----------------------------------------------------------------------------------------------------------


def test_tokens_are_one_hot_vectors_of_which_a_linear_layer_makes_the_embeddings():
    hot = nn.functional.one_hot(IDS, TOKENS).double()
    plain, linear = pair(Words), [initialised(Words(one_hot=True), seed) for seed in (0, 1)]
    for one, other in zip(plain, linear, strict=True):
        other.load_state_dict(one.state_dict() | {"table.weight": one.table.weight.T})
    for score in ({}, {"importance": "conductance", "importance_data": "fusion"}):
        one = METHODS["KF-Linear"](plain, (IDS, Y), ridge=0, **score)
        other = METHODS["KF-Linear"](linear, (hot, Y), ridge=0, **score)
        assert [level.kind for level in one.levels] == ["Embedding", "Conv1d", "Linear"]
        assert torch.allclose(one.model(IDS), other.model(hot), atol=1e-7)
        assert one.levels[0].approximation_error < 1e-20


class OneTensor(nn.Module):
    """The network of two inputs behind one tensor that holds both: what users had to write."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x[:, :4], x[:, 4:].unflatten(1, (2, 5)))


@each_case("name", ["KF-Linear", "ZipIt", "KD"])
def test_two_inputs_are_one_tensor_that_holds_both(name):
    _, inputs = INPUTS["tuple"]
    together = torch.cat([tensor.flatten(1) for tensor in inputs], 1)
    options = {"epochs": 2} if name == "KD" else {}
    score = {"importance": "conductance", "importance_data": "fusion"} if METHODS[name].takes.importance else {}
    apart = METHODS[name](pair(Two), (inputs, Y), **options, **score).model
    joined = METHODS[name]([OneTensor(model) for model in pair(Two)], (together, Y), **options, **score).model
    assert torch.allclose(apart(*inputs), joined(together), atol=1e-6)


@each_case("name", ["KF-Linear", "OTFusion", "KD"])
def test_one_number_for_each_sample_is_a_column_of_numbers(name):
    inputs = {"user": IDS[:, 0], "time": normal(80), "flag": IDS[:, 1] > 3}
    column = each_of(inputs, lambda tensor: tensor.reshape(80, 1))
    options = {"epochs": 1} if name == "KD" else {}
    one, other = (METHODS[name](pair(Numbers), (data, Y), **options).model for data in (inputs, column))
    assert torch.allclose(run(one, inputs), run(other, column), atol=1e-9)
    assert run(one, cut(inputs, slice(1))).shape == (1, 3)


# --- every method -----------------------------------------------------------------------------------------------------


@each_case("name, what", spread(METHODS, INPUTS, 1))
def test_what_comes_out_takes_what_the_parents_take(name, what):
    make, inputs = INPUTS[what]
    parents, method = pair(make), METHODS[name]
    given = {"epochs": 1} if name in ("KD", "LP") or "Gradient" in name else {}
    result = method(parents, (inputs, Y), **given)
    outputs = run(result.model, cut(inputs, slice(5)))
    assert outputs.shape == (5, 3) and torch.isfinite(outputs).all()
    if name == "Ensemble-Logits":
        assert torch.allclose(outputs, sum(run(parent, cut(inputs, slice(5))) for parent in parents) / 2)


class Pixels(nn.Module):
    """Classes for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 4, 1), nn.Conv2d(4, 3, 1)

    def forward(self, x):
        return {"out": self.head(self.second(self.first(x).relu()).relu())}


@each_case("name", ["KF-Linear", "Average", "KD"])
def test_masks_beside_images_change_nothing_where_no_classes_are_needed(name):
    """In every form: a pair, batches of a DataLoader, a dict with labels; whole numbers and others."""
    x, mask = normal(20, 2, 6, 6), torch.randint(3, (20, 6, 6), generator=torch.Generator().manual_seed(0))
    options = {"KD": {"epochs": 1, "loss": "mse"}}.get(name, {})
    expected = METHODS[name](pair(Pixels), x, **options).model(x)
    loader = DataLoader(TensorDataset(x, mask), batch_size=8)
    for data in ((x, mask), (x, mask[:, None].double()), loader, {"x": x, "labels": mask}):
        assert torch.equal(each_output(METHODS[name](pair(Pixels), data, **options).model(x)), each_output(expected))


def each_output(output):
    return output["out"] if isinstance(output, dict) else output


# --- forms of data ----------------------------------------------------------------------------------------------------


class Rows(Dataset):
    def __init__(self, inside: bool) -> None:
        self.inside = inside

    def __len__(self):
        return len(Y)

    def __getitem__(self, row):
        entry = {name: tensor[row] for name, tensor in mask().items()}
        return {**entry, "labels": Y[row]} if self.inside else (entry, Y[row])


def test_dicts_come_in_any_form():
    inputs, parents = mask(), pair(Masked)
    turned = dict(reversed(inputs.items()))
    forms = [
        (inputs, Y),
        {**inputs, "labels": Y},
        ({name: tensor.numpy() for name, tensor in inputs.items()}, Y.numpy()),
        (turned, Y),
        Rows(inside=True),
        DataLoader(Rows(inside=False), batch_size=32),
        [(cut(inputs, slice(30)), Y[:30]), (cut(inputs, slice(30, 80)), Y[30:])],
    ]
    score = {"importance": "conductance", "importance_data": "fusion"}
    outputs = [run(METHODS["KF-Linear"](parents, data, **score).model, inputs) for data in forms]
    assert all(torch.allclose(outputs[0], other, atol=1e-10) for other in outputs[1:])
    few = METHODS["KF-Linear"](parents, DataLoader(Rows(inside=True), batch_size=32), samples=40, **score)
    assert few.config["samples"] == 40


def test_logits_of_a_network_of_several_inputs_can_be_named():
    inputs, parents = mask(), [giving_logits(model, "logits") for model in pair(Masked)]
    fused = METHODS["KF-Linear"](parents, inputs).model
    assert torch.allclose(fused(**inputs), run(METHODS["KF-Linear"](pair(Masked), inputs).model, inputs))


def test_compare_measures_dict_batches():
    inputs, parents = mask(), pair(Masked)
    board = compare(parents, (inputs, Y), {**inputs, "labels": Y}, "kf-linear,average,ensemble")
    rows = {row["name"]: row for row in board.rows}
    for name, model in (
        ("parent 1", parents[1]),
        ("KF-Linear, uniform", METHODS["KF-Linear"](parents, (inputs, Y)).model),
    ):
        right = 100 * (run(model, inputs).argmax(1) == Y).double().mean()
        assert rows[name]["accuracy"] == pytest.approx(right.item())
    assert [row["reason"] for row in board.rows] == [None] * 5


class Sorted(nn.Module):
    """Its neurons lose their places."""

    def __init__(self):
        super().__init__()
        self.up, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.up(x).sort(1).values)


def test_a_network_that_becomes_one_level_is_said_to_be_so():
    result = METHODS["KF-Gradient"](pair(Sorted), normal(40, 6), epochs=1)
    assert "a single level" in result.note and "distillation" in result.note


# --- refusals ---------------------------------------------------------------------------------------------------------


class OneHot(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(TOKENS, 3)

    def forward(self, ids):
        return self.head(nn.functional.one_hot(ids, TOKENS).to(self.head.weight.dtype).mean(1))


class Shortened(Words):
    def __init__(self):
        super().__init__()
        self.table.max_norm = 1.0


CONDUCTANCE = {"importance": "conductance", "importance_data": "fusion"}


@each_case(
    ("make", "data", "given", "message"),
    [
        (Words, (IDS, Y), {"importance": "deeplift", "importance_data": "fusion"}, "some inputs of these networks are integers"),
        (OneHot, (IDS, Y), CONDUCTANCE, "read whole numbers without an nn.Embedding"),
        (Shortened, IDS, {}, r"an Embedding's rows as it runs \(max_norm\)"),
        (Masked, {"ids": IDS}, {}, r"parent 0 does not run on the tensors of the data, ids \(6 int64\): .*Name them"),
        (Masked, {**mask(), "kinds": IDS[:3]}, {}, r"hold \[3, 80\] samples; they must hold equally many"),
        (
            Masked,
            (mask(), Y),
            {"importance": "conductance", "importance_data": [({"input_ids": IDS}, Y)] * 2},
            r"these inputs are input_ids \(6 int64\); the fusion data are input_ids \(6 int64\), attention_mask",
        ),
        (Numbers, (IDS[:, 0], normal(80), Y), {}, r"3 tensors. A pair is \(inputs, targets\)"),
        (Pixels, [normal(8, 2, 6, 6), normal(8, 6, 6)], {}, r"of different shapes, 2x6x6, 6x6; .* a tuple, \(inputs, labels\)"),
        (Two, normal(80, 14), {}, r"Two.forward\(\) missing 1 required positional argument"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_before_any_work(make, data, given, message):
    with pytest.raises(ValueError, match=message):
        METHODS["KF-Linear"](pair(make), data, **given)


def test_tables_of_other_lengths_are_refused():
    other = Words()
    other.table = nn.Embedding(TOKENS + 1, 5)
    with pytest.raises(ValueError, match=r"embeddings hold \[9, 10\] rows and the fused network's 9"):
        METHODS["KF-Linear"]([*pair(Words, 0), initialised(other, 1)], IDS)
