"""The checkpoints that the benchmarks fuse, as configs of `retrofit fuse`."""

from pathlib import Path

from retrofit_core.runs import RunConfig

PAIRS = {
    "CIFAR-10 VGG11, non-IID": ("cifar10-vgg11-noniid2", "cifar10"),
    "CIFAR-10 VGG11 half width, sharded": ("cifar10-vgg11half-sharded2", "cifar10"),
    "MNIST MLP, non-IID": ("mnist-mlp-noniid2", "mnist"),
}
#: And the pair that was trained on a GPU for as long as the paper's.
GIVEN = PAIRS | {"CIFAR-10 VGG11, 200 epochs, non-IID": ("../gpu/cifar10-vgg11-paper2", "cifar10")}


def config(shared: Path, pair: str, method: str = "KF-Linear", **settings: object) -> RunConfig:
    """The config that fuses one of GIVEN with 400 samples."""
    name, data = GIVEN[pair]
    models = tuple(str(shared / "models" / f"{name}-{index}.safetensors") for index in (0, 1))
    splits = str(shared / "models" / f"{name}-splits.json")
    files = {"models": models, "data": str(shared / "data" / data), "splits": splits}
    return RunConfig(method=method, **files, **settings)  # type: ignore[arg-type]
