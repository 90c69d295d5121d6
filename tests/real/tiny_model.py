#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one tiny language model with random weights, as model servers read it.

For:       `tiny_model.py hf FOLDER` (config, tokenizer, safetensors) and `tiny_model.py gguf FILE`:
           the same two layers, the same tokenizer trained here, the same chat template. What it
           says is noise; its tokens are real, half of them broken UTF-8, so that answers stress
           a reader of streams.
Called by: run.py, with the Python of the environment that has tokenizers and the format's writer.
Knows not: servers.
"""

import json
import pathlib
import random
import sys

import numpy
import tokenizers
import tokenizers.decoders
import tokenizers.models
import tokenizers.pre_tokenizers
import tokenizers.trainers

VOCABULARY = 1024
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER = 256, 2, 4, 2, 64, 512
CONTEXT = 8192
EPSILON, ROPE_BASE = 1e-5, 10000.0
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
END = 0
TEMPLATE = ("{% if tools %}<|system|>{{ tools | tojson }}<|end|>{% endif %}"
            "{% for message in messages %}<|{{ message['role'] }}|>"
            "{% if message['content'] %}{{ message['content'] }}{% endif %}"
            "{% if message['tool_calls'] %}{{ message['tool_calls'] | tojson }}{% endif %}<|end|>"
            "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
SYLLABLES = "ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu ma me mi mo mu na".split()


def text(lines):
    """Made-up words, always the same, for the tokenizer to learn from."""
    rng = random.Random(1)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(600)]
    return [" ".join(rng.choices(words, k=12)) for _ in range(lines)]


def train_tokenizer():
    """A byte-level BPE of exactly VOCABULARY entries, the special ones first."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text(2000), trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def weights():
    """Every tensor by its name in transformers, filled with small noise.

    The first of the hidden dimensions is the same for every token and no layer changes it; the
    end of the text hangs on it, negatively: an answer ends where its length or a grammar says so,
    and never by chance."""
    rng = numpy.random.default_rng(1)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN),
              "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes.update({
            at + "self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
            at + "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            at + "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            at + "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
            at + "mlp.gate_proj.weight": (INNER, HIDDEN),
            at + "mlp.up_proj.weight": (INNER, HIDDEN),
            at + "mlp.down_proj.weight": (HIDDEN, INNER),
            at + "input_layernorm.weight": (HIDDEN,),
            at + "post_attention_layernorm.weight": (HIDDEN,)})
    found = {name: (numpy.ones(shape) if len(shape) == 1 else rng.normal(0, 0.08, shape))
             .astype(numpy.float32) for name, shape in shapes.items()}
    for name, tensor in found.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor[0, :] = 0
    found["model.embed_tokens.weight"][:, 0] = 0.5
    found["lm_head.weight"][:, 0] = 0
    found["lm_head.weight"][END, :] = 0
    found["lm_head.weight"][END, 0] = -40
    return found


def write_hf(folder):
    import safetensors.numpy

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer().save(str(folder / "tokenizer.json"))
    safetensors.numpy.save_file(weights(), folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INNER,
        "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "rms_norm_eps": EPSILON,
        "rope_theta": ROPE_BASE, "hidden_act": "silu", "tie_word_embeddings": False,
        "attention_bias": False, "bos_token_id": None, "eos_token_id": END, "pad_token_id": END,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[END],
        "pad_token": SPECIAL[END], "chat_template": TEMPLATE, "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False}, indent=1))


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    """A tensor's name in a GGUF file."""
    outer = {"model.embed_tokens.weight": "token_embd.weight",
             "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in outer:
        return outer[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest.removesuffix('.weight')]}.weight"


def write_gguf(path):
    import gguf

    model = json.loads(train_tokenizer().to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([gguf.TokenType.CONTROL if piece in SPECIAL else gguf.TokenType.NORMAL
                            for piece in pieces])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge)
                             for merge in model["merges"]])
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(END)
    writer.add_bos_token_id(END)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in weights().items():
        writer.add_tensor(gguf_name(name), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    write = {"hf": write_hf, "gguf": write_gguf}
    if len(sys.argv) != 3 or sys.argv[1] not in write:
        sys.exit("usage: tiny_model.py hf FOLDER | gguf FILE")
    write[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
