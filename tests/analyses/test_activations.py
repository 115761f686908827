"""Kept activations: the same numbers without running the model, never out of date, bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from analyses import activations as kept
from analyses.activations import _bound, kept_activations
from interp.model import activations
from models.errors import UserError
from models.transformer.model import HookedTransformer

NAMES = ["blocks.0.hook_resid_pre", "blocks.1.attn.hook_z"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRUCTURE_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def no_run(*args: object) -> None:
    raise AssertionError("the model was run again")


def test_a_second_time_is_read(
    model: HookedTransformer, tokens: torch.Tensor, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept_activations(model, tokens, NAMES)
    for name, expected in activations(model, tokens, NAMES).items():
        assert torch.equal(first[name], expected)
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(kept, "activations", no_run)
    again = kept_activations(model, tokens, NAMES[::-1])
    assert list(again) == NAMES[::-1]
    assert all(torch.equal(again[name], first[name]) for name in NAMES)
    with pytest.raises(AssertionError, match="run again"):
        kept_activations(model, tokens, [*NAMES, "blocks.1.hook_resid_post"])
    with pytest.raises(AssertionError, match="run again"):
        kept_activations(model, tokens[:, :-1], NAMES)


def test_other_weights_or_another_configuration_are_another_model(
    small_model: Callable[..., HookedTransformer],
    tokens: torch.Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept_activations(small_model(), tokens, NAMES)
    monkeypatch.setattr(kept, "activations", no_run)
    kept_activations(small_model(), tokens, NAMES)
    for other in (small_model(seed=1), small_model(mask="strictly_causal")):
        with pytest.raises(AssertionError, match="run again"):
            kept_activations(other, tokens, NAMES)


def test_other_code_computes_again(
    model: HookedTransformer, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_activations(model, tokens, NAMES)
    monkeypatch.setattr(kept, "activations", no_run)
    monkeypatch.setattr(kept, "source_hash", lambda *places: "another")
    with pytest.raises(AssertionError, match="run again"):
        kept_activations(model, tokens, NAMES)


def test_a_damaged_file_is_computed_again(
    model: HookedTransformer, tokens: torch.Tensor, cache: Path
) -> None:
    first = kept_activations(model, tokens, NAMES)
    for file in cache.iterdir():
        file.write_bytes(b"garbage")
    again = kept_activations(model, tokens, NAMES)
    assert all(torch.equal(again[name], first[name]) for name in NAMES)
    assert all(file.stat().st_size > 100 for file in cache.iterdir())


def test_the_oldest_go_first(
    model: HookedTransformer, tokens: torch.Tensor, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_activations(model, tokens, NAMES[:1])
    (old,) = cache.iterdir()
    os.utime(old, (1, 1))
    theirs = cache / "llama.safetensors"  # lies there by chance
    theirs.touch()
    os.utime(theirs, (0, 0))
    size = old.stat().st_size
    monkeypatch.setenv("STRUCTURE_LAB_CACHE_BYTES", str(int(1.5 * size)))
    kept_activations(model, tokens, ["blocks.1.hook_resid_pre"])
    assert not old.exists()
    assert len(list(cache.iterdir())) == 2
    assert theirs.exists()


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    model: HookedTransformer, tokens: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("STRUCTURE_LAB_CACHE", str(tmp_path / "file" / "cache"))
    found = kept_activations(model, tokens, NAMES)
    assert set(found) == set(NAMES)


@pytest.mark.parametrize("given", ["1G", "-1", "1.5", "", "²", "9" * 5000])
def test_a_bound_that_is_no_number_is_told(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTURE_LAB_CACHE_BYTES", given)
    with pytest.raises(
        UserError, match=r"^STRUCTURE_LAB_CACHE_BYTES is '[^\n]*: write a whole num"
    ):
        _bound()
