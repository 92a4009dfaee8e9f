"""A traced graph computes what the network computes, for other weights and other numbers of samples; what has no one graph is
refused."""

import copy

import pytest
import torch
import torchvision
from torch import nn

from retrofit_core import permuted
from retrofit_core.graph.graph import weights_of
from retrofit_core.graph.network import networks_of
from retrofit_core.graph.spaces import spaces_of
from retrofit_core.graph.tracing import check_copy, trace, trace_all
from tests.drawn import drawn
from tests.families import FAMILIES, FOLLOWED, NETWORKS, network
from tests.marks import each_case
from tests.networks import initialised, normal, seeded
from tests.properties import untouched

QUICK = ("TransformerEncoder", "aggregated", "language model, position ids in a buffer", "an item", "dense")


def long(name):
    return pytest.param(name, marks=pytest.mark.long)


NAMES = [name if name in QUICK else long(name) for name in (*FAMILIES, *FOLLOWED)]


class Called(nn.Module):
    """Layers, and a function of the network and its inputs."""

    def __init__(self, code, **layers):
        super().__init__()
        self.code = code
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args, **kwargs):
        return self.code(self, *args, **kwargs)


def first(output):
    return output[0] if isinstance(output, (tuple, list)) else output


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fallback", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_graph_computes_what_the_network_computes(name, fallback):
    model, x = network(name)
    graph, other = trace(model, x[:3], fallback=fallback), network(name, seed=1)[0]
    for each in (model, other):
        with torch.no_grad():
            torch.testing.assert_close(graph(weights_of(each), x)[0], first(each(x)), rtol=1e-9, atol=1e-9)


@each_case("shape", [(4,), (5, 4), (3, 5, 4)])
@each_case("view", [lambda y: y, lambda y: y.view(len(y), -1), lambda y: y[:, :1]])
def test_what_a_layer_made_of_tokens_can_be_changed_in_place(shape, view):
    """torch computes (B, T, n) from a matrix of rows, of which it returns a view."""

    def code(net, x):
        y = net.a(x)
        view(y).relu_()
        return net.b(y)

    model, x = Called(code).double().eval(), normal(7, *shape)
    with torch.no_grad():
        torch.testing.assert_close(trace(model, x[:3])(weights_of(model), x)[0], model(x))


LARGE = {
    "mobilenet_v3_small": {},
    "resnet18": {},
    "convnext_tiny": {},
    "densenet121": {},
    "shufflenet_v2_x0_5": {},
    "googlenet": {"init_weights": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *NETWORKS, "mobilenet_v3_small", *(long(name) for name in [*LARGE][1:])])
def test_neurons_in_another_order_compute_the_same(name):
    if name in LARGE:
        make = getattr(torchvision.models, name)
        model, x = initialised(seeded(0, make, num_classes=5, **LARGE[name]), 1), normal(2, 3, 64, 64)
    elif name in NETWORKS:
        make, shape = NETWORKS[name]
        model, x = make(), normal(4, *shape)
    else:
        model, x = network(name)
    with untouched(model), torch.no_grad():
        twin, expected = permuted(model, x, 3), first(model(x))
        torch.testing.assert_close(first(twin(x)), expected, rtol=1e-9, atol=1e-9)
    moved = any(not torch.equal(tensor, weights_of(model)[key]) for key, tensor in weights_of(twin).items())
    assert expected.std() > 1e-3 and moved != (name == "constant")  # none of whose neurons may change places


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 120))])
def test_the_neurons_of_a_drawn_network_are_those_of_which_it_was_built(seed):
    model, x = drawn(seed)
    graph = trace(model, x[:3])
    built = {}
    for name, axes in model.along.items():
        for axis, line in axes if name in graph.weights else ():
            start = 0
            for neurons in line:
                places = range(start, start := start + neurons.width)
                if not neurons.fixed and neurons.width > 1:
                    built.setdefault(neurons, {}).setdefault((name, axis), []).extend(places)
    expected = {frozenset((key, tuple(sorted(places))) for key, places in of.items()) for of in built.values()}
    spaces = spaces_of(graph, weights_of(model), [x[:1]]).spaces
    found = {
        frozenset((key, tuple(sorted(places.flatten().tolist()))) for key, places in space.axes.items())
        for space in spaces
        if len(space.ids) > 1
    }
    assert found == expected


PARTS = {  # neurons of each space, and those that lie in parts
    "aggregated": ([4, 6, 9, 2], [6, 9]),
    "branches": ([6, 6], [6, 6]),
    "channels in parts": ([4, 8, 8, 16, 5], [4, 8, 8, 16]),
    "other parts": ([2, 5], []),
    "inverted": ([4, 6], []),
}


@pytest.mark.slow
@each_case("name", PARTS)
def test_neurons_change_places_within_parts_of_a_grouped_convolution(name):
    model, x = network(name)
    spaces = spaces_of(trace(model, x[:3]), weights_of(model), [x[:1]])
    sizes, in_parts = PARTS[name]
    assert [len(space.ids) for space in spaces.spaces] == sizes
    assert [len(space.ids) for space in spaces.spaces if space.parts is not None] == in_parts


# --- inputs and outputs -----------------------------------------------------------------------------------------------------


class Factor:
    """A number that its text does not show."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return "a factor"


@pytest.mark.parametrize("factor", [lambda number: Factor(number), lambda number: Factor(torch.tensor(number))])
def test_networks_of_one_graph_share_it_and_others_do_not(factor):
    def code(net, x):
        return net.b((net.a(x) * net.factor.number).relu())

    x, models = normal(3, 4), [Called(code).double().eval() for _ in range(3)]
    for model, number in zip(models, (1.0, 2.0, 1.0), strict=True):
        model.factor = factor(number)
    nets = networks_of(models, x)
    assert nets[0].graph is nets[2].graph is not nets[1].graph
    for net, model in zip(nets, models, strict=True):
        torch.testing.assert_close(net.graph(net.weights, x)[0], model(x))


@pytest.mark.slow
def test_networks_take_several_inputs_and_return_several_outputs():
    def code(net, x, scale=None):
        h = net.a(x).relu() if scale is None else (net.a(x) * scale).relu()
        return {"shape": net.b(h), "colour": net.c(h), "logits": net.b(h) + 1}

    model = Called(code, c=nn.Linear(6, 2)).double().eval()
    x, scale = normal(5, 4), normal(5, 1)
    expected = model(x, scale=scale)
    for inputs in ((x, scale), {"x": x, "scale": scale}):
        graph = trace(model, inputs, logits=["shape", "colour"])
        made = graph(weights_of(model), x, scale)
        torch.testing.assert_close(made, [expected["shape"], expected["colour"]])
    assert len(trace(model, x).outputs) == 1
    spaces = spaces_of(graph, weights_of(model), [x[:1], scale[:1]])
    assert [len(space.ids) for space in spaces.spaces] == [6]  # classes of both heads stay in place


def test_operations_know_the_modules_that_called_them():
    model = nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.ReLU(), nn.Linear(6, 3)))
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    graph = trace(model, normal(3, 4).float())
    assert [node.meta["module"] for node in graph.nodes if node.op == "call_function"] == ["0", "1.0", "1.1"]
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks


def test_a_branch_on_padding_is_taken_as_all_samples_need_it():
    def code(net, x, mask):
        h = net.a(x)
        return net.b((h if mask.all() else h * mask).relu())

    model = Called(code).double().eval()
    x, mask = normal(8, 4), torch.ones(8, 1, dtype=torch.float64)
    mask[-1] = 0
    graph = trace_all(model, (x, mask))
    torch.testing.assert_close(graph(weights_of(model), x, mask)[0], model(x, mask))


REFUSED = {
    "branches on the data": lambda net, x: net.b(net.a(x).relu()) if x.mean() > 0 else net.b(net.a(x).tanh()) + net.c,
    "a number is read": lambda net, x: net.b(net.a(x) * x.mean().item()),
    "other things for other numbers": lambda net, x: net.b(net.a(x).relu() if len(x) > 2 else net.a(x)),
    "draws random numbers": lambda net, x: net.b(net.a(x) + torch.randn_like(net.a(x))),
    "differ from call to call": lambda net, x: net.b(nn.functional.dropout(net.a(x))),
    "statistics of the batch": lambda net, x: net.b(nn.functional.batch_norm(net.a(x), None, None, training=True)),
    "none of its own": lambda net, x: net.b(net.a(net.parts[0](x))),
}


@each_case("why", REFUSED)
def test_code_without_one_graph_is_refused(why):
    model = Called(REFUSED[why], c=nn.Parameter(torch.zeros(3))).double().eval()
    model.parts = [nn.Linear(4, 4).double()]
    with pytest.raises(ValueError, match=why):
        trace(model, normal(3, 4))


@each_case(
    ("operation", "message"),
    [
        (
            lambda x: x.clamp(torch.arange(6.0).double()),
            "cannot be followed through aten.clamp.* give it a rule in .*/neurons.py",
        ),
        (lambda x: x.cumsum(1), "another order of its neurons changes what it computes"),
    ],
)
def test_neurons_that_cannot_be_followed_are_refused(operation, message):
    model = Called(lambda net, x: net.b(operation(net.a(x)))).double()
    with pytest.raises(ValueError, match=message):
        permuted(model, normal(3, 4))


def test_a_norm_in_float32_within_a_float64_network_is_no_other_function():
    """As the RMSNorms of Llama: another order of the neurons rounds their sum otherwise."""

    class Norm(nn.Module):
        def forward(self, x):
            h = x.to(torch.float32)
            return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))).to(x.dtype)

    model = initialised(nn.Sequential(nn.Linear(6, 9), Norm(), nn.Linear(9, 3)), 0)
    assert not torch.equal(permuted(model, normal(4, 6))[0].weight, model[0].weight)


def test_a_copy_that_runs_other_weights_is_refused():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    x = normal(3, 4)
    graph = trace(model, x)
    check_copy(copy.deepcopy(model), graph, x)
    forward = model.forward
    model.forward = lambda x: forward(x)
    other = copy.deepcopy(model)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match="forward was replaced"):
        check_copy(other, graph, x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
