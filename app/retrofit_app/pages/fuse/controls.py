"""The controls of the form, and their help."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from retrofit_app.address import session

from .presets import FORM

HELP = {
    "preset": "Starting points. Everything below can be changed afterwards.",
    "networks": "Fuse the two networks that come with the workbench, train new ones first, or take your own.",
    "data": "digits comes with scikit-learn. Others are looked for in `data` beside the runs folder and in the folders that "
    "RETROFIT_DATA names; or type the path of a folder.",
    "mean": "Mean of the training pixels scaled to 0..1: one number, or one a channel (0.49,0.48,0.45). Only for data sets "
    "that are not known by name.",
    "std": "Standard deviation of the same pixels.",
    "size": "Images are brought to so many pixels a side; 0 leaves them as they are.",
    "arch": "What the networks look like. cnn and mlp train in seconds on digits; the others are meant for larger images.",
    "parents": "How many networks are trained and fused. HF methods pair two; KF methods take any number.",
    "widths": "Neurons of this network's hidden layers, compared with the usual number.",
    "fused": "Width of the network that comes out.",
    "split": "Who is trained on which images.",
    "ratio": "Of a non-IID split: smallest concentration over largest. Smaller means more unequal shares.",
    "recipe": "Training settings. small has no augmentation and few epochs; the others are for real image sets.",
    "epochs": "Passes over the images; 0 for the recipe's own number.",
    "split_seed": "Decides who gets which images, and the networks' first weights. Same seed, same networks.",
    "method": "The first four are the paper's: HF pairs the neurons of two equal networks one to one, KF clusters them; Linear "
    "fits each level in closed form, Gradient by gradient descent. The others are what they are compared with. The line below "
    "says what the chosen one does.",
    "grouping": "Which neurons are put together. Every method has its own way; another one can take its place.",
    "importance": "What a neuron counts when neurons are grouped: its part in the network's decisions, or all the same.",
    "samples": "Training images that the fusion sees, balanced over the classes. The paper uses 400.",
    "source": "Whose training images the fusion sees. The paper takes network A's; where A has none of some class, the images of "
    "all networks may serve better.",
    "fusion_seed": "Decides which samples are drawn and where clusterings start. Same seed, same numbers.",
    "settings": "Hyper-parameters of the fusion: ours, or those of the paper's tables.",
    "code": "Empty where the files say it themselves. Else a name such as vgg11-half, timm:resnet18, torchvision:resnet18, or "
    "a function of your own that gives the network: /path/to/mynet.py:make. Importing a module runs its code, so name only "
    "code that you trust; it is imported when you press Start, in a process of its own.",
    "target": "Empty for network A's architecture; or a name such as vgg11-half, or a JSON object, as `retrofit fuse "
    "--target` takes it.",
    "base": "The checkpoint from which all these networks were trained on: the method adds what each of them has learned to it.",
    "rows": "A splits file tells which training images each network saw: then importance uses each network's own images. "
    "Leave it empty if you have none.",
}


def select(name: str, label: str, options: Any, **more: Any) -> None:
    """A list; a dict of options gives the words for each."""
    words = options if isinstance(options, dict) else {}
    st.selectbox(
        label,
        list(options),
        help=HELP[name],
        format_func=lambda value: words.get(value, value),
        **FORM.control(name),
        **more,
    )


def number(name: str, label: str, least: Any, most: Any, step: Any, **more: Any) -> None:
    """A number within limits. The browser does not get them: it would not send a number outside, and Start would use the old."""

    def read(value: Any) -> Any:
        nearest = min(max(value, least), most)
        if nearest != value:
            st.toast(f"{label} goes from {least:,} to {most:,}: {value:,} became {nearest:,}.", icon=":material/info:")
        return nearest

    st.number_input(label, None, None, step=step, help=HELP[name], **FORM.control(name, read), **more)


def text(name: str, label: str, shown: str, read: Callable[[str], Any], kind: Callable[..., Any], **more: Any) -> None:
    """A text that stands for a value of another kind; what cannot be read leaves the value as it was.

    Args:
        read: gives the value; raises ValueError where there is none.
        kind: st.text_input or st.text_area.
    """
    key = FORM.key(f"{name}-text")
    session.remember(key, shown)

    def write() -> None:
        try:
            value = read(session.recall(key))
        except ValueError:
            return
        FORM.change(**{name: value})

    kind(label, key=key, on_change=write, **more)
