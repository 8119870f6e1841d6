"""A tiny Llama with random weights, made on the spot: `python tiny.py FOLDER` writes it for transformers and as GGUF for llama.cpp.

Runs in the environment of `transformers serve`, with the gguf package; nothing is downloaded. Its text means nothing, but it has words, capitals
and letters of more than one byte, and for one prompt it is the same each time (greedy).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from gguf import GGUFWriter, TokenType
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT_TOKENS = 2048
VOCABULARY = 700
SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
BEGIN, END = 0, 1
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CORPUS = """A gateway takes a stream of tokens that comes in bursts and lets it go on as a steady one. Nothing is lost, nothing comes twice, and the
order stays what it was. Where a proxy reads too slowly, the upstream waits; where a client leaves, the request ends. "How long?" she asked. A second
at most, he said: reasoning may wait longer than an answer, and a tool's arguments hardly at all. Some words are not plain: naïve, café, Straße,
Ærø, 東京 and 京都, Привет, Ελλάδα, and faces 🙂 🙃 too. Numbers like 1, 20 and 300 stand beside signs: {braces}, [brackets], <tags> and \\slashes."""


def tokenizer() -> Tokenizer:
    """Byte-level BPE, which both servers know as GPT-2's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        [CORPUS] * 4,
        trainers.BpeTrainer(vocab_size=VOCABULARY, min_frequency=1, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    return made


def model(tokens: Tokenizer) -> LlamaForCausalLM:
    """Weights large enough for each token to depend on all before it, so that greedy decoding does not fall into a loop at once."""
    torch.manual_seed(7)
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=tokens.get_vocab_size(),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=CONTEXT_TOKENS,
            initializer_range=0.2,
            tie_word_embeddings=False,
            bos_token_id=BEGIN,
            eos_token_id=END,
        )
    ).eval()
    made.generation_config.do_sample = False
    made.generation_config.pad_token_id = END
    # A logit of 0 is never the highest of hundreds: the model speaks neither its template's tokens nor bytes that make no letter on their own.
    silent = [token for text, token in tokens.get_vocab().items() if text in SPECIAL or not _says(tokens, token)]
    with torch.no_grad():
        made.lm_head.weight[silent] = 0.0
    return made


def _says(tokens: Tokenizer, token: int) -> bool:
    text = tokens.decode([token])
    return "\ufffd" not in text and text.isprintable()


def save(folder: Path, tokens: Tokenizer, weights: LlamaForCausalLM) -> None:
    whole = PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="<|begin|>", eos_token="<|end|>", pad_token="<|end|>")
    whole.chat_template = TEMPLATE
    whole.save_pretrained(folder)
    weights.save_pretrained(folder)


def save_gguf(path: Path, tokens: Tokenizer, weights: LlamaForCausalLM) -> None:
    config = weights.config
    out = GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_context_length(CONTEXT_TOKENS)
    out.add_embedding_length(config.hidden_size)
    out.add_block_count(config.num_hidden_layers)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(config.num_attention_heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    out.add_rope_freq_base(10000.0)
    out.add_vocab_size(config.vocab_size)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([tokens.id_to_token(token) for token in range(config.vocab_size)])
    out.add_token_types([TokenType.CONTROL if token < len(SPECIAL) else TokenType.NORMAL for token in range(config.vocab_size)])
    out.add_token_merges([" ".join(pair) for pair in _merges(tokens)])
    out.add_bos_token_id(BEGIN)
    out.add_eos_token_id(END)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    for name, tensor in weights.state_dict().items():
        out.add_tensor(_gguf_name(name), _turned(name, tensor, config.num_attention_heads).contiguous().numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def _merges(tokens: Tokenizer) -> list[list[str]]:
    return json.loads(tokens.to_str())["model"]["merges"]

    return json.loads(tokens.to_str())["model"]["merges"]


_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _gguf_name(name: str) -> str:
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name.replace("model.layers.", "blk.")


def _turned(name: str, tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp rotates neighbouring rows of queries and keys, transformers the two halves of a head."""
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    return tensor.reshape(heads, 2, -1, tensor.shape[-1]).swapaxes(1, 2).reshape(tensor.shape)


def main() -> None:
    folder = Path(sys.argv[1])
    tokens = tokenizer()
    weights = model(tokens)
    save(folder, tokens, weights)
    save_gguf(folder / "tiny.gguf", tokens, weights)


if __name__ == "__main__":
    main()
