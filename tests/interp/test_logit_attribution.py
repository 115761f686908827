"""Direct logit attribution against what it is defined to be.

Equality with TransformerLens' attribution is in test_transformer_lens.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from interp.heads.logit_attribution import direct_logit_attribution
from models.languages import END_ID
from models.transformer.model import HookedTransformer


def test_the_parts_of_a_word_sum_to_its_logit(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    positions = torch.tensor([7, 2, 0, 5])
    for token in (END_ID, 3):
        table = direct_logit_attribution(model, tokens, positions, token)
        total = table.groupby("word")["value"].sum().to_numpy()
        expected = model(tokens)[torch.arange(4), positions, token].detach().numpy()
        assert total == pytest.approx(expected, abs=1e-4)
    assert not table.duplicated(["part", "word"]).any()


def test_a_part_is_the_change_when_it_goes_and_the_norm_stays(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    """Take one head's result out of the last stream, hold the final norm's scale: the logit falls
    by the head's direct attribution."""
    positions = torch.full((4,), 7)
    table = direct_logit_attribution(model, tokens, positions, END_ID)
    logits, cache = model.run_with_cache(tokens)
    result, scale = cache["blocks.0.attn.hook_result"][:, -1, 2], cache["ln_final.hook_scale"]

    def take_out(resid: torch.Tensor, hook: object) -> torch.Tensor:
        resid = resid.clone()
        resid[:, -1] -= result
        return resid

    def hold(value: torch.Tensor, hook: object) -> torch.Tensor:
        return scale

    after = model.run_with_hooks(
        tokens, fwd_hooks=[("blocks.1.hook_resid_post", take_out), ("ln_final.hook_scale", hold)]
    )
    fallen = (logits - after)[:, -1, END_ID].detach().numpy()
    ours = table.query("part == 'L0H2'")["value"].to_numpy()
    assert ours == pytest.approx(fallen, abs=1e-4)
    assert np.abs(ours).max() > 1e-3


def test_what_is_not_finite_is_named(model: HookedTransformer, tokens: torch.Tensor) -> None:
    broken = deepcopy(model)
    with torch.no_grad():
        broken.blocks[1].mlp.b_out[0] = torch.nan
    with pytest.raises(ValueError, match=r"^blocks\.1\.hook_mlp_out: 4 of \d+ numbers are NaN"):
        direct_logit_attribution(broken, tokens, torch.full((4,), 7), END_ID)
