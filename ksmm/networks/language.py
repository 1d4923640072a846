"""GPT-2 (prefill, and decoding of a single token) and a block of Llama, with random weights."""

from __future__ import annotations

import torch
from torch import nn

from ksmm.networks.cache import RepeatableCache
from ksmm.networks.entry import Entry
from ksmm.networks.network import Network, OneOutput, require_transformers
from ksmm.networks.sizes import GPTS, LLAMAS

GPT_REPLACED = ("*.attn.*", "*.mlp.*")
LLAMA_REPLACED = ("*",)
"""Every linear layer of a block; the embeddings, and the head that shares them, stay dense."""


class NextToken(nn.Module):
    """A language model that returns the logits of the token after the last: what generating needs of a prompt."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor, cache: RepeatableCache) -> torch.Tensor:
        """Logits of shape (batch size, vocabulary).

        Args:
            tokens: shape (batch size, length), integers.
            positions: the same shape.
            cache: read and written.
        """
        result = self.model(tokens, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return result.logits[:, -1]


def build_gpt2(entry: Entry) -> Network:
    """GPT-2 of transformers with its cache, in float32 on PyTorch's default device.

    Raises:
        UnavailableError: transformers cannot be imported, or is too old.
        KeyError: the entry's network is not one of sizes.GPTS.
    """
    require_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel

    size = GPTS[entry.network]
    config = GPT2Config(
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        vocab_size=size.vocabulary,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(size.vocabulary, (entry.batch_size, entry.tokens))
    positions = torch.arange(entry.cached_tokens, entry.cached_tokens + entry.tokens).expand_as(tokens).contiguous()
    shape = (entry.batch_size, size.heads, entry.cached_tokens + entry.tokens, size.hidden // size.heads)
    cache = RepeatableCache(size.layers, shape, entry.cached_tokens, torch.float32, tokens.device)
    return Network(NextToken(model), (tokens, positions), GPT_REPLACED, tuple(model.transformer.h), cache)


def build_llama_block(entry: Entry) -> Network:
    """A block of transformers' Llama (causal attention, no cache), in float32 on PyTorch's default device.

    Raises:
        UnavailableError: transformers cannot be imported, or is too old.
        KeyError: the entry's network is not one of sizes.LLAMAS.
    """
    require_transformers()
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    size = LLAMAS[entry.network]
    config = LlamaConfig(
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        attn_implementation="sdpa",
    )
    block = LlamaDecoderLayer(config, layer_idx=0)
    x = torch.randn(entry.batch_size, entry.tokens, size.hidden)
    angles = LlamaRotaryEmbedding(config)(x, torch.arange(entry.tokens)[None])
    return Network(WithAngles(block, *angles), (x,), LLAMA_REPLACED, (block,))


class WithAngles(OneOutput):
    """A block of Llama with its rotary angles: cosines and sines of shape (1, tokens, head size)."""

    def __init__(self, block: nn.Module, cosines: torch.Tensor, sines: torch.Tensor) -> None:
        super().__init__(block)
        self.register_buffer("cosines", cosines)
        self.register_buffer("sines", sines)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, of the shape of x, (batch size, tokens, hidden)."""
        result = self.inner(x, position_embeddings=(self.cosines, self.sines))
        return result[0] if isinstance(result, tuple) else result
