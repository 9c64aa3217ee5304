"""Tokens from a model, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from torchdeck.recipes.generation.request import Sampling

Prompt = str | bytes | Sequence[int]
"""Text, which is read as UTF-8, or tokens."""


class GeneratingModel(nn.Module):
    """A model of the next token: int64 (batch, time) → logits (batch, time, vocabulary)."""

    @property
    def longest_context(self) -> int | None:
        """Return the most tokens that the model can read at once; None: any number."""
        return None

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
        window: int | None = None,
        stop: int | None = None,
    ) -> Iterator[int]:
        """Yield tokens that continue the prompt, each as soon as it is chosen.

        For a model of bytes, `bytes(model.generate("text"))` is the whole continuation.

        Args:
            prompt: text or tokens; at least one.
            max_tokens: most tokens to yield.
            temperature: divides the logits; 0: always the likeliest token.
            top_k: choose among this many of the likeliest tokens; None: among all.
            seed: of the choices; None: they differ each time.
            window: most tokens before the next one that are read; None: as many as the model can read.
            stop: token that ends the text; it is not yielded.

        Raises:
            ValueError: an argument is out of range, or the prompt is empty.
        """
        sampling = Sampling(max_tokens, temperature, top_k, seed)
        tokens = list(prompt.encode() if isinstance(prompt, str) else prompt)
        if not tokens:
            raise ValueError("the prompt is empty: give at least one token to continue")
        limits = [limit for limit in (window, self.longest_context) if limit is not None]
        return self._continued(tokens, sampling, min(limits, default=None), stop)

    def _continued(
        self, tokens: list[int], sampling: Sampling, window: int | None, stop: int | None
    ) -> Iterator[int]:
        generator = torch.Generator()
        if sampling.seed is None:
            generator.seed()
        else:
            generator.manual_seed(sampling.seed)
        for _ in range(sampling.max_tokens):
            token = chosen(self._next_logits(tokens[-(window or len(tokens)) :]), sampling, generator)
            if token == stop:
                return
            yield token
            tokens.append(token)

    @torch.no_grad()
    def _next_logits(self, tokens: Sequence[int]) -> Tensor:
        """Return the logits of the token after `tokens`, without dropout: shape (vocabulary,), on the CPU."""
        device = next(self.parameters()).device
        training = self.training
        self.eval()
        try:
            logits: Tensor = self(torch.tensor([tokens], dtype=torch.int64, device=device))
        finally:
            self.train(training)
        return logits[0, -1].float().cpu()


def chosen(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Return a token by its probability under `sampling`.

    Args:
        logits: shape (vocabulary,).
        sampling: temperature and top_k.
        generator: of random numbers; not used at temperature 0.
    """
    if sampling.temperature == 0:
        return int(logits.argmax())
    if sampling.top_k is not None and sampling.top_k < len(logits):
        values, tokens = logits.topk(sampling.top_k)
    else:
        values, tokens = logits, torch.arange(len(logits))
    # the largest is subtracted first: a small temperature would make infinities of others
    weights = ((values - values.max()) / sampling.temperature).softmax(0)
    return int(tokens[torch.multinomial(weights, 1, generator=generator)])
