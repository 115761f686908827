"""A fully hooked Transformer with TransformerLens' names; one set of parts makes every variant.

    x = embed(tokens) + positions;   x = block(x) for every block;   logits = norm(x) W_U + b_U

After post-norm blocks x is normalised already, so that the final norm does nothing. The final norm
has no gamma and beta, since the unembedding can absorb them. Direct logit attribution, which
projects onto W_U alone, is then exact. ``incremental.py`` says what a second run can leave out.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import FactoredMatrix
from transformer_lens.hook_points import HookPoint

from models.base import Unembed, initialise, start_of
from models.choices import ABSOLUTE
from models.errors import UserError
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig
from models.transformer.block import Block
from models.transformer.counting import bias_of_all_heads
from models.transformer.incremental import IncrementalTransformer
from models.transformer.masks import allowed
from models.transformer.norm import Norm
from models.transformer.positions import (
    T5_BUCKETS,
    alibi,
    check_reach,
    computed,
    distances,
    rotations,
    t5_buckets,
)
from models.transformer.relations import Relations
from models.transformer.stacked import OF_HEADS, OF_MLPS, stacked


class HookedTransformer(IncrementalTransformer):
    """A decoder or, with a bidirectional mask, an encoder."""

    # From Python 3.12 on, isinstance with a protocol sees what stands on the class alone.
    blocks = property(lambda self: self._modules["blocks"])
    ln_final = property(lambda self: self._modules["ln_final"])
    W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O = (stacked("attn", name) for name in OF_HEADS)
    W_in, W_out, b_in, b_out = (stacked("mlp", name) for name in OF_MLPS)
    QK = property(lambda self: FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1)))
    OV = property(lambda self: FactoredMatrix(self.W_V, self.W_O))

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> None:
        """Weights are drawn from ``seed`` alone: the global random state is not used or moved."""
        super().__init__(config, vocabulary)
        with torch.random.fork_rng(devices=[]):  # PyTorch's layers draw weights that are not used
            self.embed = nn.Embedding(len(vocabulary), config.d_embed)
            self.hook_embed = HookPoint()
            self.pos_embed: nn.Embedding | None = None
            if config.positions == "learned":
                self.pos_embed = nn.Embedding(config.n_ctx, config.d_model)
            if config.positions in ABSOLUTE:
                self.hook_pos_embed = HookPoint()
            self.relative: nn.Embedding | None = None
            if config.positions == "t5":
                self.relative = nn.Embedding(T5_BUCKETS, config.learned_heads)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
            final = "none" if config.norm_placement == "post" else config.norm
            self.ln_final = Norm(final, config.d_model, config.eps, affine=False)
            self.unembed = Unembed(config, len(vocabulary))
        initialise(self, torch.Generator().manual_seed(seed), start_of(config), config.even_start)
        self.setup()  # type: ignore[no-untyped-call]  # untyped in TransformerLens

    def logits(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch pos d_vocab"]:
        x = self.hook_embed(self.embedded(tokens))
        if self.config.positions in ABSOLUTE:
            x = x + self.hook_pos_embed(self.position_embedding(tokens, offsets).expand_as(x))
        relations = self.relations(tokens)
        for block in self.blocks:
            x = block(x, relations)
        return self.unembed(self.ln_final(x))

    def position_embedding(
        self, tokens: Int[Tensor, "batch pos"], offsets: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "#batch pos d_model"]:
        """The vectors that absolute positions add to the embeddings."""
        length = tokens.shape[1]
        position = torch.arange(length, device=tokens.device)[None]
        if offsets is not None:
            position = position + offsets.to(tokens.device, non_blocking=True)[:, None]
        if self.pos_embed is None:
            return computed(position, self.config, self.W_E.dtype)
        check_reach(length, 0 if offsets is None else int(offsets.max()), self.config.n_ctx)
        return self.pos_embed(position)

    def relations(self, tokens: Int[Tensor, "batch pos"]) -> Relations:
        """Mask, bias and rotation of a batch, made once for all layers."""
        config, length, device = self.config, tokens.shape[1], tokens.device
        may = bias = rotation = None
        if config.mask != "causal" or config.window:
            valid = tokens != END_ID if config.sees_ahead else None
            may = allowed(config.mask, length, valid, device, config.window)[:, None]
        if config.positions == "alibi":
            bias = alibi(config.learned_heads, length, device, self.W_E.dtype)
        elif self.relative is not None:
            buckets = t5_buckets(distances(length, device), config.sees_ahead)
            bias = self.relative(buckets).permute(2, 0, 1)
        elif config.positions == "rotary":
            dtype = self.W_E.dtype
            rotation = rotations(length, config.d_head, config.position_base, device, dtype)
        return Relations(may, bias_of_all_heads(bias, config.counting), rotation)

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Float[Tensor, " d_model"]:
        """The sum of the output biases that entered the residual stream before block ``layer``.

        Args:
            mlp_input: also count the attention of block ``layer`` itself, unless its MLP stands
                beside it.
            include_mlp_biases: count the MLPs' biases too, not only those of attention.

        Raises:
            UserError: the model has no residual stream.
        """
        if not self.config.residual:
            raise UserError(
                "without a residual the stream is no sum of what its parts wrote: read the parts' "
                "own hooks, such as hook_attn_out"
            )
        total = self.W_U.new_zeros(self.config.d_model)
        for index, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            if index < layer or (index == layer and mlp_input and not block.parallel):
                total = total + block.attn.b_O
            if index < layer and include_mlp_biases and block.mlp is not None:
                total = total + block.mlp.b_out
        return total

    def norms_on_the_way(
        self, layer: int, part: Literal["embed", "attn", "mlp"]
    ) -> list[str] | None:
        """The names of the norms on the direct way from a part to the logits, in order.

        None is returned where there is no such way: without a residual, if another part follows.

        Args:
            layer: the block of the part; ignored for "embed", which stands before the first block.
            part: "attn" is a head's z W_O, "mlp" what ``hook_mlp_out`` hears.
        """
        config = self.config
        last = config.n_layers - 1, "attn" if config.mlp == "none" else "mlp"
        if not config.residual and (layer, part) != last:
            return None
        norms: list[str] = []
        if config.norm_placement == "sandwich" and part == "attn":
            norms.append(f"blocks.{layer}.ln1_post")
        if config.norm_placement == "post":
            names = ["ln1"] if config.mlp == "none" else ["ln1", "ln2"]
            stream = [f"blocks.{k}.{name}" for k in range(config.n_layers) for name in names]
            first = {"embed": 0, "attn": len(names) * layer, "mlp": len(names) * layer + 1}[part]
            norms += stream[first:]
        return [*norms, "ln_final"]
