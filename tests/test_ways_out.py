"""Where a refusal names another method or option as the way out, it is one: carried out on the same input, it works."""

import ast
import inspect
import re
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.flat import FLAT
from tests.marks import each_case
from tests.networks import labels, normal, seeded
from tests.test_contract import EVERY, options_for

SAMPLES, CLASSES = 24, 3

# --- networks, few neurons each, that some method cannot take --------------------------------------------------------


class Net(nn.Module):
    """Layers by name, and a function of (network, x) that says how they are called."""

    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.call(self, x)


def mlp(call, **layers):
    """width -> network of vectors; `layers` are functions of the width."""
    return lambda width: Net(
        call,
        a=nn.Linear(5, width),
        **{name: layer(width) for name, layer in layers.items()},
        out=nn.Linear(width, CLASSES),
    )


def cnn(call, **layers):
    """width -> network of images."""
    return lambda width: Net(
        call,
        a=nn.Conv2d(2, width, 3, padding=1),
        **{name: layer(width) for name, layer in layers.items()},
        out=nn.Linear(width, CLASSES),
    )


def square(width):
    return nn.Linear(width, width)


def tied(width):
    net = Net(lambda m, x: m.out(torch.relu(m.c(torch.relu(m.b(torch.relu(m.a(x))))))), a=nn.Linear(5, width))
    net.b, net.c, net.out = square(width), square(width), nn.Linear(width, CLASSES)
    net.c.weight = net.b.weight
    return net


def conv(width):
    return nn.Conv2d(width, width, 3, padding=1)


def head(m, x):
    return m.out(torch.relu(x).mean((2, 3)))


VECTORS = {
    "plain": mlp(lambda m, x: m.out(torch.relu(m.b(torch.relu(m.a(x))))), b=square),
    "residual": mlp(lambda m, x: m.out((h := torch.relu(m.a(x))) + torch.relu(m.b(h))), b=square),
    "raw weight": mlp(
        lambda m, x: m.out(torch.relu(torch.relu(m.a(x)) @ m.w.t())),
        w=lambda width: nn.Parameter(torch.randn(width, width)),
    ),
    "softmax over neurons": mlp(lambda m, x: m.out(torch.softmax(m.a(x), -1))),
    "glu": mlp(lambda m, x: m.out(F.glu(m.b(torch.relu(m.a(x))))), b=lambda width: nn.Linear(width, 2 * width)),
    "chunks": mlp(
        lambda m, x: m.out(torch.mul(*m.b(torch.relu(m.a(x))).chunk(2, -1))),
        b=lambda width: nn.Linear(width, 2 * width),
    ),
    "sorted neurons": mlp(lambda m, x: m.out(torch.relu(m.a(x)).sort(-1)[0])),
    "no layer at the end": mlp(lambda m, x: torch.tanh(m.out(torch.relu(m.a(x))))),
    "two heads": mlp(lambda m, x: m.out(h := torch.relu(m.a(x))) + m.b(h), b=lambda width: nn.Linear(width, CLASSES)),
    "bilinear": mlp(
        lambda m, x: m.out(torch.relu(m.b(h := torch.relu(m.a(x)), h))),
        b=lambda width: nn.Bilinear(width, width, width),
    ),
    "tied layers": tied,
    "weight norm": mlp(
        lambda m, x: m.out(torch.relu(m.b(torch.relu(m.a(x))))),
        b=lambda width: nn.utils.parametrizations.weight_norm(square(width)),
    ),
    "offsets, one of which is used": mlp(
        lambda m, x: m.out(torch.relu(m.a(x)) + m.w[0]), w=lambda width: nn.Parameter(torch.randn(width, width))
    ),
    "PReLU": mlp(lambda m, x: m.out(m.act(m.a(x))), act=lambda width: nn.PReLU(width)),
}
IMAGES = {
    "grouped": cnn(lambda m, x: head(m, m.b(torch.relu(m.a(x)))), b=lambda width: nn.Conv2d(width, width, 3, groups=2)),
    "GroupNorm": cnn(lambda m, x: head(m, m.n(m.a(x))), n=lambda width: nn.GroupNorm(2, width)),
    "branches": cnn(
        lambda m, x: m.out(torch.cat([F.relu(m.a(x)), F.relu(m.b(x))], 1)[:, ::2].mean((2, 3))),
        b=lambda width: nn.Conv2d(2, width, 3, padding=1),
    ),
    "concatenated": cnn(
        lambda m, x: head(m, m.c(torch.cat([h := F.relu(m.a(x)), F.relu(m.b(h))], 1))),
        b=conv,
        c=lambda width: nn.Conv2d(2 * width, width, 1),
    ),
    "neurons last": cnn(
        lambda m, x: m.b(torch.relu(m.a(x)).permute(0, 2, 3, 1).flatten(1)),
        b=lambda width: nn.Linear(width * 16, CLASSES),
    ),
    "pixel shuffle": cnn(
        lambda m, x: head(m, m.c(F.pixel_shuffle(F.relu(m.b(m.a(x))), 2))),
        b=lambda width: nn.Conv2d(width, 4 * width, 1),
        c=lambda width: nn.Conv2d(width, width, 1),
    ),
    "BatchNorm of the batch": cnn(
        lambda m, x: head(m, m.n(m.a(x))), n=lambda width: nn.BatchNorm2d(width, track_running_stats=False)
    ),
    "transposed": cnn(
        lambda m, x: head(m, m.b(torch.relu(m.a(x)))), b=lambda width: nn.ConvTranspose2d(width, width, 2, 2)
    ),
    "dense outputs": cnn(lambda m, x: m.b(torch.relu(m.a(x))), b=lambda width: nn.Conv2d(width, CLASSES, 1)),
}
TOKENS = {
    "MultiheadAttention": mlp(
        lambda m, x: m.out((h := m.a(x)) + m.b(h, h, h, need_weights=False)[0]).mean(1),
        b=lambda width: nn.MultiheadAttention(width, 2, batch_first=True),
    ),
    "LSTM": mlp(lambda m, x: m.out(m.b(torch.relu(m.a(x)))[0][:, -1]), b=lambda w: nn.LSTM(w, w, batch_first=True)),
    "tokens mixed": mlp(lambda m, x: m.out(m.b(m.a(x).mT).mT.mean(1)), b=lambda width: nn.Linear(4, 4)),
}
NETWORKS = {
    **{name: (make, (5,)) for name, make in VECTORS.items()},
    **{name: (make, (2, 4, 4)) for name, make in IMAGES.items()},
    **{name: (make, (4, 5)) for name, make in TOKENS.items()},
}
WIDTHS = {"two parents": (4, 4), "three parents": (4, 4, 4), "one parent": (4,), "other widths": (4, 6)}
#: What is asked for beside: name -> options.
ASKED = {
    "a wider target": lambda make: {"target": make(6)},
    "a narrower target": lambda make: {"target": make(2)},
    "conductance": lambda make: {"importance": "conductance", "steps": 2, "importance_data": "fusion"},
    "deeplift": lambda make: {"importance": "deeplift", "importance_data": "fusion"},
    "toward the parents": lambda make: {"toward": "parents"},
    "active": lambda make: {"active": True},
    "named boundaries": lambda make: {"boundaries": ["a"]},
    "blocks": lambda make: {"boundaries": "blocks"},
    "layers": lambda make: {"boundaries": "layers"},
}


# --- ways out --------------------------------------------------------------------------------------------------------

#: Options of torch's layers.
OF_LAYERS = {"affine", "bias", "track_running_stats"}
NAME = "|".join(sorted(METHODS, key=len, reverse=True))
#: The end of a way: networks or data must be changed, and the message says how.
CHANGES = "|".join(
    ("track_running_stats=True", "parametrize", "its own weights", "Pass one column")
    + ("Use a target", "Pass a target", "all of them one architecture")
)


def ways(message, name, options):
    """The (method, options) that a refusal of a method with these options names as the way out."""
    found = []
    for clause in re.findall(rf"\b[Uu]se ((?:{NAME})(?:(?:, or |, | or )(?:{NAME}))*)", message):
        found += [(other, options) for other in re.split(r", or |, | or ", clause)]
    if re.search(r"[Uu]se a KF method|KF methods take", message):
        found += [("KF-Linear", options), ("KF-Gradient", options)]
    clauses = re.findall(r"\b[Uu]se ((?:[^.(]|\.(?! |$)|\((?!HF|KF))*)", message)
    for alternative in [part for clause in clauses for part in re.split(r"(?:,|;)? or (?=[\w ]*\w=)", clause)]:
        if changed := dict(re.findall(r"\b([a-z_]+)=('\w+'|True|False)", alternative)):
            found.append(with_changes(name, options, {key: ast.literal_eval(word) for key, word in changed.items()}))
    if other := re.search(r"importance='\w+',? or '(\w+)'", message):
        found.append(with_changes(name, options, {"importance": other[1]}))
    if "Let no level end there" in message:
        found.append(("KF-Gradient", {**options, "boundaries": 1}))
    if "eave" in message:
        found += [
            (name, without(options, key))
            for key in options
            if re.search(rf"\b{key}\b.*[Ll]eave (it|them) out", message)
        ]
    return found


def strange_options(message, name):
    """Options in a refusal that neither the method has nor one that is named in it."""
    named = {name, *(other for other in METHODS if re.search(rf"(?<![\w-]){other}(?![\w-])", message))}
    known = {key for other in named for key in (*inspect.signature(METHODS.get(other, FLAT)).parameters, *FIXED[other])}
    return set(re.findall(r"(?<![\w.])([a-z_]+)=(?=['\[TF\d])", message)) - known - OF_LAYERS


def without(options, keyword):
    return {key: value for key, value in options.items() if key != keyword}


def with_changes(name, options, changed):
    """The method of which these are fixed, by name or as `fuse` has it, and its options."""
    parts = {part: changed.pop(part) for part in FIXED[name] if part in changed}
    wanted = {**FIXED[name], **parts}
    names = [name] if not parts else [other for other, fixed in FIXED.items() if fixed == wanted]
    return names[0], {**options, **changed}


#: What the name of a method fixes.
FIXED = {
    name: {"grouping": name.split(", ")[0], "fit": name.split(", ")[1]} if name not in METHODS else METHODS[name].fixed
    for name in EVERY
}


class Ways:
    """Networks and what is asked of them; what was carried out once is remembered."""

    def __init__(self, network, situation):
        make, shape = NETWORKS[network]
        widths = WIDTHS.get(situation, WIDTHS["two parents"])
        self.models = [seeded(seed, make, width).eval() for seed, width in enumerate(widths)]
        self.asked = seeded(9, ASKED[situation], make) if situation in ASKED else {}
        self.data = normal(SAMPLES, *shape).float(), labels(SAMPLES, CLASSES)
        self.said = {}

    def refusal(self, name, options, *, only_planned=False):
        """What a method says to these networks; empty where it works."""
        key = name, only_planned, repr(sorted((key, str(value)) for key, value in options.items()))
        if key not in self.said:
            method = METHODS.get(name, FLAT)
            given = {**options_for(name, self.models, CLASSES), **options, **({} if name in METHODS else FIXED[name])}
            try:
                (method.plan if only_planned else method)(self.models, self.data, **given)
                self.said[key] = ""
            except ValueError as error:
                self.said[key] = str(error)
                assert not re.search(r"\w\.\. ", str(error)), error  # a message within another one
        return self.said[key]

    def dead_end(self, name, options, seen=()):
        """The refusals on the way to one that names no way that leads further; empty where a way leads to what works."""
        message = self.refusal(name, options, only_planned=not seen)
        assert not strange_options(message, name), f"{name}: {message}"
        if not message or re.search(CHANGES, message):
            return ()
        seen = (*seen, f"{name} {without(options, 'target')}: {message}")
        found = ways(message, name, options)
        if seen[-1] in seen[:-1] or not found:
            return seen if len(seen) > 1 else ()
        ends = [
            self.dead_end(other, self.taken(other, given), seen)
            if given.keys() - options.keys() <= self.taken(other, given).keys()
            else (*seen, f"{other} has no such option: {given}")
            for other, given in found
        ]
        return next((end for end in ends if end), ()) if all(ends) or len(seen) == 1 else ()

    def taken(self, name, options):
        """The options that a method has too."""
        if name in METHODS:
            options = {key: value for key, value in options.items() if key in METHODS[name].keywords(options)}
        return options


#: A few of everything.
QUICK = [
    ("plain", "three parents"),
    ("plain", "active"),
    ("residual", "blocks"),
    ("residual", "layers"),
    ("PReLU", "three parents"),
    ("concatenated", "other widths"),
    ("neurons last", "a narrower target"),
    ("glu", "a wider target"),
    ("sorted neurons", "one parent"),
    ("no layer at the end", "two parents"),
    ("tied layers", "conductance"),
]
MANY = ("plain", "residual", "chunks", "grouped", "MultiheadAttention")
CASES = [*product(NETWORKS, ("two parents", "other widths", "a narrower target")), *product(MANY, [*WIDTHS, *ASKED])]


@pytest.mark.parametrize(
    "network, situation",
    [
        pytest.param(*case, marks=pytest.mark.slow if case in QUICK else pytest.mark.long)
        for case in dict.fromkeys([*QUICK, *CASES])
    ],
)
def test_what_a_refusal_recommends_works(network, situation):
    tried = Ways(network, situation)
    dead = {
        name: tried.dead_end(name, tried.asked) for name in METHODS if tried.taken(name, tried.asked) == tried.asked
    }
    assert not {name: end for name, end in dead.items() if end}


@pytest.mark.slow
@each_case("network", ["concatenated", "branches", "GroupNorm", "MultiheadAttention", "neurons last", "chunks"])
def test_aligned_methods_end_in_a_network_or_a_sentence(network):
    """Several groups of neurons on one axis of a weight, and layers that are never called, ended in torch's words."""
    for name, situation in product(("OTFusion", "ZipIt"), ("other widths", "a narrower target")):
        tried = Ways(network, situation)
        if message := tried.refusal(name, tried.asked):
            assert (
                "'out.weight' has the shape" in message and "Use KF-Gradient" in message and network == "neurons last"
            )
