"""The lectures' worked examples, made by setting what our attention computes with."""

from __future__ import annotations

import torch
from transformer_lens.hook_points import HookPoint

from models.model_config import ModelConfig
from models.transformer.attention import Attention
from models.transformer.norm import Norm


def given(point: HookPoint, value: torch.Tensor) -> None:
    """The activation at a hook point becomes the value, whatever the weights say."""
    point.add_hook(lambda activation, hook: value.expand_as(activation))


def seen(attention: Attention, x: torch.Tensor, name: str) -> torch.Tensor:
    out: list[torch.Tensor] = []
    getattr(attention, name).add_hook(lambda activation, hook: out.append(activation))
    attention(x)
    return out[0].detach()


def make(n_heads: int, d_model: int) -> Attention:
    return Attention(ModelConfig(n_heads=n_heads, d_model=d_model)).eval()


def test_softmax_of_scaled_scores() -> None:
    """q.k = 112 and 96 with d_k = 64: divided 14 and 12, weights 0.88 and 0.12."""
    attention = make(1, 64)
    keys = torch.zeros(1, 2, 1, 64)
    keys[0, :, 0, 0] = torch.tensor([112.0, 96.0])
    given(attention.hook_k, keys)
    given(attention.hook_q, torch.eye(64)[0])
    x = torch.zeros(1, 2, 64)
    assert seen(attention, x, "hook_attn_scores")[0, 0, 1].tolist() == [14.0, 12.0]
    pattern = seen(attention, x, "hook_pattern")[0, 0]
    torch.testing.assert_close(pattern[1], torch.tensor([0.88, 0.12]), rtol=0, atol=0.005)


def test_causal_mask_then_softmax() -> None:
    """The scores of "I am a student"."""
    scores = torch.tensor(
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
    )
    printed = torch.tensor(
        [[1, 0, 0, 0], [0.38, 0.62, 0, 0], [0.26, 0.32, 0.43, 0], [0.21, 0.26, 0.26, 0.26]]
    )
    attention = make(1, 4)
    given(attention.hook_q, 2 * torch.eye(4).view(1, 4, 1, 4))  # sqrt(d_k) = 2 divides it again
    given(attention.hook_k, scores.T.reshape(1, 4, 1, 4))
    pattern = seen(attention, torch.zeros(1, 4, 4), "hook_pattern")[0, 0]
    torch.testing.assert_close(pattern, printed, rtol=0, atol=0.0051)
    assert (pattern.triu(1) == 0).all()
    values = torch.randn(1, 4, 1, 4, generator=torch.Generator().manual_seed(0))
    given(attention.hook_v, values)
    z = seen(attention, torch.zeros(1, 4, 4), "hook_z")
    torch.testing.assert_close(z[0, :, 0], pattern @ values[0, :, 0])


def test_contextual_average() -> None:
    """0.8 apple + 0.2 fruit = (4.0, 7.2); 0.9 apple + 0.1 brand = (5.1, 6.3)."""
    apple, fruit, brand = (5.0, 7.0), (0.0, 8.0), (6.0, 0.0)
    attention = make(1, 2)
    given(attention.hook_v, torch.tensor([apple, fruit, brand]).view(1, 3, 1, 2))
    weights = torch.tensor([[0.8, 0.2, 0.0], [0.9, 0.0, 0.1], [0.0, 0.0, 1.0]])
    given(attention.hook_pattern, weights)
    z = seen(attention, torch.zeros(1, 3, 2), "hook_z")[0, :, 0]
    torch.testing.assert_close(z, torch.tensor([[4.0, 7.2], [5.1, 6.3], brand]))


def test_parameter_and_output_shapes() -> None:
    """d = 16: one head of width 16, or four of width 4."""
    for heads, width in ((1, 16), (4, 4)):
        attention = make(heads, 16)
        for name in ("W_Q", "W_K", "W_V"):
            assert getattr(attention, name).shape == (heads, 16, width)
        for name in ("b_Q", "b_K", "b_V"):
            assert getattr(attention, name).shape == (heads, width)
        assert attention.W_O.shape == (heads, width, 16)
        assert attention.b_O.shape == (16,)
        x = torch.zeros(3, 6, 16)
        assert attention(x).shape == (3, 6, 16)
        assert seen(attention, x, "hook_pattern").shape == (3, heads, 6, 6)


def test_sigma_is_the_population_standard_deviation() -> None:
    norm = Norm("layer", 4, eps=0.0, affine=False)
    x = torch.tensor([[[1.0, 2.0, 3.0, 6.0]]])
    expected = (x - 3) / (14 / 4) ** 0.5
    torch.testing.assert_close(norm(x), expected)
    norm.hook_scale.add_hook(lambda scale, hook: None)
    torch.testing.assert_close(norm(x), expected)
