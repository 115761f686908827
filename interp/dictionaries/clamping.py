"""Latents are clamped: does the model then say what the truth says?

A case moves one variable at one position from a value to another. The latent of the old value is
set to 0, and that of the new one to the code that it has where its value is true. What else is in
the activation stays. What is right then is known: the truth computes the rest with the new value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.dictionaries.dictionary import Dictionary
from interp.dictionaries.scores import Readers
from interp.model import HookedModel

ROWS = 256
"""The most cases in a forward pass."""
CANDIDATES = 4
"""Latents of a fact that are tried."""
ALIKE = 0.01
"""Latents whose F1 differs by at most this read a fact equally well."""


@dataclass(frozen=True)
class Clamps:
    """Cases of a variable that is moved.

    Attributes:
        tokens: words with BOS.
        at: the position at which the variable is moved.
        off: the number of the fact that no longer holds; -1 where no latent stands for it.
        on: the number of the fact that now holds; -1 where no latent stands for it.
        read: the position at which the answers are read.
        answers: the tokens that are judged, each by the sign of its logit.
        before, after: the right answers without the move, and with it.
    """

    tokens: Int[Tensor, "case pos"]
    at: Int[Tensor, " case"]
    off: Int[Tensor, " case"]
    on: Int[Tensor, " case"]
    read: Int[Tensor, " case"]
    answers: Int[Tensor, " answer"]
    before: Bool[Tensor, "case answer"]
    after: Bool[Tensor, "case answer"]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Int[Tensor, " some"]) -> Clamps:
        of_cases = [field.name for field in fields(self) if field.name != "answers"]
        return replace(self, **{name: getattr(self, name)[rows] for name in of_cases})

    @property
    def flips(self) -> Bool[Tensor, " case"]:
        """Where the right answers change."""
        return (self.before != self.after).any(dim=1)


@dataclass(frozen=True)
class _Handles:
    """The latents by which a dictionary moves facts.

    Attributes:
        latents: the latent of each fact.
        levels: the mean code of each latent where the fact holds, by fact and latent.
    """

    latents: Int[Tensor, " fact"]
    levels: Float[Tensor, "fact latent"]

    def moves(
        self,
        dictionary: Dictionary,
        codes: Float[Tensor, "case latent"],
        clamps: Clamps,
    ) -> Float[Tensor, "case d_out"]:
        """The move of each case, which is added to its activation.

        Args:
            codes: codes at the moved position of each case.
        """
        new, case = codes.clone(), torch.arange(len(codes))
        stops, begins = clamps.off >= 0, clamps.on >= 0
        new[case[stops], self.latents[clamps.off[stops]]] = 0.0
        begun = clamps.on[begins]
        new[case[begins], self.latents[begun]] = self.levels[begun, self.latents[begun]]
        return (new - codes) @ dictionary.directions


@torch.no_grad()
def _answers_with(
    model: HookedModel, hook: str, clamps: Clamps, moves: Float[Tensor, "case d_out"]
) -> Bool[Tensor, "case answer"]:
    """The model's answers once the activation at each case's position is moved."""
    answers = []
    for rows in torch.arange(len(clamps)).split(ROWS):
        part, moved = clamps[rows], moves[rows]

        def add(
            x: Float[Tensor, "case pos d"],
            hook: object,
            at: Int[Tensor, " case"] = part.at,
            by: Float[Tensor, "case d"] = moved,
        ) -> Float[Tensor, "case pos d"]:
            x = x.clone()
            x[torch.arange(len(x)), at] += by.to(x)
            return x

        logits = model.run_with_hooks(part.tokens, fwd_hooks=[(hook, add)])
        answers.append(logits[torch.arange(len(rows)), part.read][:, clamps.answers] > 0)
    return torch.cat(answers)


def balanced(right: Bool[Tensor, " case"], flips: Bool[Tensor, " case"]) -> float:
    """The share of right answers, cases whose truth flips and others half each.

    1 is perfect. Who changes nothing has 1/2, and so has who changes all. NaN without both kinds.
    """
    if not flips.any() or flips.all():
        return float("nan")
    return float((right[flips].float().mean() + right[~flips].float().mean()) / 2)


@dataclass(frozen=True)
class Clamped:
    """Cases, and the dictionary that they are tried with.

    Attributes:
        hook: the output of the dictionary.
        codes: codes at the moved position of each case.
    """

    model: HookedModel
    hook: str
    dictionary: Dictionary
    clamps: Clamps
    codes: Float[Tensor, "case latent"]

    def right(self, handles: _Handles) -> Bool[Tensor, " case"]:
        """True for the cases in which the model follows the truth."""
        moves = handles.moves(self.dictionary, self.codes, self.clamps)
        answers = _answers_with(self.model, self.hook, self.clamps, moves)
        return (answers == self.clamps.after).all(dim=1)

    def cause(self, handles: _Handles) -> float:
        """Does the model follow the truth when latents are clamped? ``balanced`` over the cases."""
        return balanced(self.right(handles), self.clamps.flips)

    def handles(
        self,
        readers: Readers,
        codes: Float[Tensor, "n latent"],
        facts: Bool[Tensor, "n fact"],
    ) -> _Handles:
        """The latent of each fact that reads it best. Of several that read it equally well, it is
        the one with which most of these cases are right; no score may then be taken on them.

        Two latents may read a fact alike where only one of them does what follows from it: codes
        alone cannot tell which.

        Args:
            codes, facts: codes and facts of the positions that chose the thresholds.
        """
        levels = facts.float().T @ codes / facts.sum(dim=0)[:, None].clamp_min(1)
        ranked = readers.ranked[:, :CANDIDATES]
        tried = torch.stack([self._per_fact(_Handles(pick, levels)) for pick in ranked.T], dim=1)
        alike = readers.fits.gather(1, ranked)
        tried = tried.masked_fill(alike < alike[:, :1] - ALIKE, -1.0)
        chosen = ranked.gather(1, tried.argmax(dim=1, keepdim=True))[:, 0]
        return _Handles(chosen, levels)

    def _per_fact(self, handles: _Handles) -> Float[Tensor, " fact"]:
        """The share of right cases among those that move each fact."""
        right, count = self.right(handles).float(), len(handles.latents)
        sums = torch.zeros(2, count + 1)
        for fact in (self.clamps.off, self.clamps.on):
            sums[0].index_add_(0, fact.remainder(count + 1), right)  # -1 counts apart
            sums[1].index_add_(0, fact.remainder(count + 1), torch.ones_like(right))
        return (sums[0] / sums[1].clamp_min(1))[:count]
