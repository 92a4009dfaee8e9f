"""Checkpoints that do not state how their images were normalised: the command line says what it took."""

import torch

from retrofit_core import build
from retrofit_core.cli import main
from retrofit_core.networks.checkpoints import save_model


def test_evaluate_says_which_normalisation_it_took(tmp_path, capsys):
    model = build({"architecture": "cnn"}, seed=0)
    torch.save(model.state_dict(), tmp_path / "bare.pt")
    save_model(model, tmp_path / "stated.safetensors", mean=[0.3], std=[0.4])
    assert main(["evaluate", str(tmp_path / "bare.pt"), "--arch", "cnn"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "bare.pt does not record its own" in words and "--mean and --std" in words
    assert main(["evaluate", str(tmp_path / "stated.safetensors")]) == 0
    assert "Normalisation" not in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "bare.pt"), "--arch", "cnn", "--mean", "0", "--std", "1"]) == 0
    assert "Normalisation" not in capsys.readouterr().out
