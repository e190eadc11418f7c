"""The demo's model folder: a small fast tokenizer with a chat template in Kimi's style, made here and now.

Nothing is downloaded, and the same code gives the same bytes. Its ends of sequence are split over config.json and
generation_config.json, as Kimi-K2.5's are. There are no weights: the stand-in engine needs none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from console.demo.texts import corpus

NAME = "Kimi-K2.5-demo"
_VOCAB_LIMIT = 2048
CONTEXT_LENGTH = 32_768

SPECIAL = ("[PAD]", "[BOS]", "[EOS]", "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_tool|>", "<|im_middle|>",
           "<|im_end|>")  # fmt: skip
"""Their ids are their places in this tuple."""
ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Tokens with an id of their own that are text all the same."""

EOS_ID = SPECIAL.index("[EOS]")
END_OF_TURN_ID = SPECIAL.index("<|im_end|>")

CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>
{%- endif -%}
{%- for message in messages -%}
{%- set role = message['role'] -%}
{%- if role not in ['system', 'user', 'assistant', 'tool'] -%}
{{ raise_exception('unknown role ' ~ role) }}
{%- endif -%}
<|im_{{ role }}|>{{ role }}<|im_middle|>{{ message['content'] }}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_assistant|>assistant<|im_middle|>
{%- if thinking is defined and thinking is false -%}<think></think>{%- else -%}<think>{%- endif -%}
{%- endif -%}
"""


def make_model(folder: Path) -> None:
    """Write the model's folder; what is there already is written again. Takes half a second."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _train()
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "[BOS]",
            "eos_token": "[EOS]",
            "pad_token": "[PAD]",
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT_LENGTH,
        },
    )
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8", newline="\n")
    _write(
        folder / "config.json",
        {
            "architectures": ["KimiK25ForConditionalGeneration"],
            "model_type": "kimi_k25",
            "eos_token_id": EOS_ID,
            "text_config": {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": CONTEXT_LENGTH},
        },
    )
    _write(folder / "generation_config.json", {"eos_token_id": END_OF_TURN_ID, "temperature": 1.0, "top_p": 0.95})


def _train() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCAB_LIMIT - len(ADDED),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    return tokenizer


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8", newline="\n")
