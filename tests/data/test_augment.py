"""Augmentation of uint8 batches: against torchvision's own transforms, image by image."""

import pytest
import torch
from torch.nn.functional import pad
from torchvision.transforms import AutoAugmentPolicy, v2

from retrofit_core.data import load
from retrofit_core.data.augment import POLICIES, auto_augment, copies, crop, flip, usual_padding
from tests.marks import each_case, spread


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def photographs(n, channels=3, height=12, width=10):
    return torch.randint(256, (n, channels, height, width), generator=draw(1), dtype=torch.uint8)


def test_crops_are_windows_of_the_padded_image_and_all_offsets_occur():
    pixels = photographs(600)
    cropped = crop(pixels, 2, draw())
    padded = pad(pixels, (2,) * 4)
    seen = set()
    for image, result in zip(padded, cropped, strict=True):
        offsets = [(y, x) for y in range(5) for x in range(5) if torch.equal(image[:, y : y + 12, x : x + 10], result)]
        assert len(offsets) == 1
        seen.update(offsets)
    assert len(seen) == 25
    assert crop(pixels, 0, draw()) is pixels


def test_flips_are_drawn_for_each_image():
    pixels = photographs(400)
    flipped = flip(pixels, draw())
    mirrored = torch.tensor([torch.equal(a, b.flip(-1)) for a, b in zip(flipped, pixels, strict=True)])
    kept = torch.tensor([torch.equal(a, b) for a, b in zip(flipped, pixels, strict=True)])
    assert (mirrored ^ kept).all()
    assert 150 < int(mirrored.sum()) < 250


def reference(policy, pixels):
    """All outcomes of torchvision's AutoAugment for one image (C, H, W): its own code, with every draw forced."""
    table = v2.AutoAugment(AutoAugmentPolicy(policy), fill=128)
    for operations in table._policies:
        for choices in range(16):  # applied? and negative?, of both operations
            result = pixels
            for step, (operation, _, level) in enumerate(operations):
                if not choices >> step & 1:
                    continue
                values, signed = table._AUGMENTATION_SPACE[operation]
                values = values(10, *pixels.shape[1:])
                value = float(values[level]) if values is not None else 0.0
                value = -value if signed and choices >> (step + 2) & 1 else value
                result = table._apply_image_or_video_transform(result, operation, value, "nearest", table._fill)
            yield result


@pytest.mark.slow
@each_case("policy, channels", spread(POLICIES, [1, 3], 1))
def test_auto_augment_gives_only_what_torchvision_could_give(policy, channels):
    pixels = photographs(8, channels)
    for image, result in zip(pixels, auto_augment(pixels, policy, draw()), strict=True):
        assert any(torch.equal(result, possible) for possible in reference(policy, image))


def test_copies_follow_their_images_with_their_labels():
    images, rows = load("digits"), torch.tensor([7, 3, 3])
    pixels, labels = copies(images, rows, 2, draw())
    assert pixels.shape == (9, 1, 8, 8)
    assert torch.equal(pixels[:3], images.pixels(rows)) and torch.equal(labels, images.labels[rows].repeat(3))
    # Digits are moved by at most a pixel and never mirrored: each copy is a window of its padded image.
    for copy, image in zip(pixels[3:], images.pixels(rows).repeat(2, 1, 1, 1), strict=True):
        padded = pad(image, (1, 1, 1, 1))
        assert any(torch.equal(padded[:, y : y + 8, x : x + 8], copy) for y in range(3) for x in range(3))
    assert torch.equal(copies(images, rows, 2, draw())[0], pixels)
    assert not torch.equal(copies(images, rows, 2, draw(1))[0], pixels)
    assert torch.equal(copies(images, rows, 0, draw())[0], images.pixels(rows))


def test_padding_of_the_paper_and_of_small_images():
    sides = {8: 1, 28: 3, 32: 4, 64: 4, 224: 4}
    assert {side: usual_padding((3, side, side)) for side in sides} == sides


@pytest.mark.cuda
def test_the_device_does_not_matter():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    pixels = photographs(200)
    for function in (lambda x, g: crop(x, 3, g), flip):
        assert torch.equal(function(pixels, draw()), function(pixels.cuda(), draw()).cpu())
    # Nearest neighbours and roundings may fall differently on a few pixels.
    ours, theirs = (auto_augment(x, "cifar10", draw()).cpu().float() for x in (pixels, pixels.cuda()))
    assert ((ours - theirs).abs() > 1).float().mean() < 0.01


@pytest.mark.slow
def test_auto_augment_occurs_as_often_as_in_torchvision():
    """How often an image stays as it is: its mean over draws of ours and of torchvision's own."""
    image = photographs(1)
    ours = auto_augment(image.expand(4000, -1, -1, -1), "cifar10", draw())
    transform = v2.AutoAugment(AutoAugmentPolicy.CIFAR10, fill=128)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = torch.stack([transform(image[0]) for _ in range(2000)])
    kept_ours, kept_theirs = ((batch == image).flatten(1).all(1).float().mean().item() for batch in (ours, theirs))
    assert kept_ours == pytest.approx(kept_theirs, abs=0.04)
    mean_ours, mean_theirs = (batch.float().mean(0) for batch in (ours, theirs))
    assert (mean_ours - mean_theirs).abs().mean() < 3


def test_copies_are_mirrored_where_the_data_set_allows_it():
    from dataclasses import replace

    images = replace(load("digits"), mirrors=True)
    pixels, _ = copies(images, torch.arange(40), 1, draw())
    padded = pad(pixels[:40].flip(-1), (1, 1, 1, 1))
    mirrored = sum(
        any(torch.equal(padded[row, :, y : y + 8, x : x + 8], pixels[40 + row]) for y in range(3) for x in range(3))
        for row in range(40)
    )
    assert 8 < mirrored < 32
