"""A causal, pre-norm, fully hooked Transformer with TransformerLens' names and protocol.

    u = x + Attention(LayerNorm(x));  z = u + MLP(LayerNorm(u));  logits = LayerNorm(z) W_U + b_U

The final norm has no gamma and beta: the unembedding absorbs them, and direct logit attribution,
which projects onto W_U alone, is then exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import ActivationCache, HookedRootModule
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.hook_points import HookPoint

from models.attention import Attention
from models.config import ModelConfig
from models.errors import UserError
from models.languages import Vocabulary
from models.mlp import MLP
from models.norm import LayerNorm


class Block(nn.Module):
    """One layer. Hooks, all [batch, pos, d_model]: ``hook_resid_pre, hook_attn_out, hook_resid_mid,
    hook_mlp_out, hook_resid_post``."""

    hook_out_is_single_residual_stream = True  # what TransformerLens' logit lens asks for

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln1 = LayerNorm(config.d_model, config.eps, affine=True, bias=config.bias)
        self.attn = Attention(config)
        self.ln2 = LayerNorm(config.d_model, config.eps, affine=True, bias=config.bias)
        self.mlp = MLP(config)
        self.hook_resid_pre = HookPoint()
        self.hook_attn_out = HookPoint()
        self.hook_resid_mid = HookPoint()
        self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        x = self.hook_resid_pre(x)
        x = self.hook_resid_mid(x + self.hook_attn_out(self.attn(self.ln1(x))))
        return self.hook_resid_post(x + self.hook_mlp_out(self.mlp(self.ln2(x))))


class Unembed(nn.Module):
    """Residual stream to logits: x W_U + b_U."""

    def __init__(self, config: ModelConfig, d_vocab: int) -> None:
        super().__init__()
        self.linear = nn.Linear(config.d_model, d_vocab)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.linear(x)


class HookedTransformer(HookedRootModule):
    """The model of the lab: any tool that takes TransformerLens' hook interface takes it.

    Attributes:
        config: our own frozen configuration.
        cfg: the same for TransformerLens' tools.
        vocabulary: input and output tokens; the output END means "the word may end here".
    """

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        with torch.random.fork_rng(devices=[]):  # torch's layers draw first weights of their own
            self.embed = nn.Embedding(len(vocabulary), config.d_model)
            self.hook_embed = HookPoint()
            self.pos_embed: nn.Embedding | None = None
            if config.positions == "learned":
                self.pos_embed = nn.Embedding(config.n_ctx, config.d_model)
                self.hook_pos_embed = HookPoint()
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
            self.ln_final = LayerNorm(config.d_model, config.eps, affine=False)
            self.unembed = Unembed(config, len(vocabulary))
        self._initialise(torch.Generator().manual_seed(seed))
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def _initialise(self, generator: torch.Generator) -> None:
        """Linear weights uniform in +-1/sqrt(fan_in), biases zero, embeddings N(0, 0.02^2).

        Queries and keys start ten times smaller: attention begins near the uniform average, from
        which counting is a short way. The embeddings start small so that this average, and not the
        last symbol, fills the residual stream.
        """
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                bound = module.in_features**-0.5
                bound *= 0.1 if name.endswith(("attn.q", "attn.k")) else 1.0
                nn.init.uniform_(module.weight, -bound, bound, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02, generator=generator)

    def forward(
        self, tokens: Int[Tensor, "batch pos"] | str | Sequence[str]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position; ``logits[:, t, END]`` > 0 says that the word may end after t.

        Args:
            tokens: token ids that begin with BOS, or text for ``to_tokens``.
        """
        if not isinstance(tokens, Tensor):
            tokens = self.to_tokens(tokens)
        x = self.hook_embed(self.embed(tokens))
        if self.pos_embed is not None:
            if tokens.shape[1] > self.config.n_ctx:
                raise UserError(
                    f"a word of {tokens.shape[1] - 1} symbols is longer than the learned positions "
                    f"reach ({self.config.n_ctx - 1}): train with a larger --model.n-ctx"
                )
            position = torch.arange(tokens.shape[1], device=tokens.device)
            x = x + self.hook_pos_embed(self.pos_embed(position).expand_as(x))
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.ln_final(x))

    def run_with_cache(
        self, *args: Any, return_cache_object: bool = True, **kwargs: Any
    ) -> tuple[Tensor, ActivationCache | dict[str, Tensor]]:
        """As in TransformerLens: (logits, ActivationCache); a plain dict on request."""
        out, cache = super().run_with_cache(*args, **kwargs)
        if not return_cache_object:
            return out, cache
        return out, ActivationCache(cache, self, not kwargs.get("remove_batch_dim", False))

    # -- the vocabulary -------------------------------------------------------------------------

    def to_tokens(
        self, text: str | Sequence[str] | Tensor, prepend_bos: bool = True
    ) -> Int[Tensor, "batch pos"]:
        """A word, or several of one length, as token ids. Raises UserError for unknown symbols."""
        if isinstance(text, Tensor):
            return text
        words = [self.vocabulary.parse(t) for t in ([text] if isinstance(text, str) else text)]
        if len({len(word) for word in words}) > 1:
            raise UserError("words of one batch must have the same length")
        batch = self.vocabulary.words(words)
        ids = batch.tokens if prepend_bos else batch.ids
        return torch.as_tensor(ids, device=self.device)

    def to_single_token(self, token: str) -> int:
        """The id of one token, BOS and END included."""
        if token not in self.vocabulary.ids:
            raise UserError(
                f"unknown token {token!r}: use one of {' '.join(self.vocabulary.tokens)}"
            )
        return self.vocabulary.ids[token]

    def to_str_tokens(self, text: str | Tensor, prepend_bos: bool = True) -> list[str]:
        ids = self.to_tokens(text, prepend_bos).reshape(-1)
        return list(self.vocabulary.decode(ids.tolist()))

    # -- what TransformerLens' tools read ---------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def cfg(self) -> TransformerBridgeConfig:
        config = self.config
        return TransformerBridgeConfig(
            d_model=config.d_model,
            d_head=config.d_head,
            n_heads=config.n_heads,
            n_layers=config.n_layers,
            n_ctx=config.n_ctx,
            d_mlp=config.d_mlp,
            d_vocab=len(self.vocabulary),
            d_vocab_out=len(self.vocabulary),
            act_fn=config.act_fn,
            eps=config.eps,
            normalization_type="LN",
            positional_embedding_type="standard" if self.pos_embed is not None else "none",
            device=str(self.device),
            dtype=self.embed.weight.dtype,
            default_prepend_bos=True,
            use_attn_result=True,
        )

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        return self.embed.weight

    @property
    def W_U(self) -> Float[Tensor, "d_model d_vocab"]:
        return self.unembed.linear.weight.T

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"]:
        return self.unembed.linear.bias

    def tokens_to_residual_directions(self, tokens: Tensor | int | str) -> Tensor:
        """The column of W_U of each token; shape [..., d_model], or [d_model] for one token."""
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        ids = torch.as_tensor(tokens, device=self.device)
        return self.W_U.T[ids.reshape(()) if ids.numel() == 1 else ids]

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Float[Tensor, " d_model"]:
        """The sum of output biases that reached the residual stream before ``layer``."""
        total = self.W_U.new_zeros(self.config.d_model)
        for index, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            if index < layer or (index == layer and mlp_input):
                total = total + block.attn.b_O
            if index < layer and include_mlp_biases:
                total = total + block.mlp.b_out
        return total
