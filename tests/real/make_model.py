"""``make_model.py DIR``: a tiny Llama for ``vllm serve DIR --load-format dummy``, made offline.

Two layers of random weights (vLLM seeds them: at temperature 0 all replicas say the same), a
byte-level BPE tokenizer trained here on the standard library's sources, and a chat template. Runs
in vLLM's own environment (start_vllm.sh), which has the packages it imports.
"""

import json
import sys
import sysconfig
from pathlib import Path

# The tests' environment, where mypy runs, has neither package; vLLM's has both.
from tokenizers import (  # type: ignore[import-not-found]  # see above
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (  # type: ignore[import-not-found]  # see above
    LlamaConfig,
    PreTrainedTokenizerFast,
)

POSITIONS_MAX = 4096
VOCABULARY = 4000
ROLES = ("user", "assistant", "system", "tool")
SPECIAL = ["<pad>", "<s>", "</s>", *(f"<|{role}|>" for role in ROLES), "<|end|>"]
TEMPLATE = (
    "{% for m in messages %}"
    "<|{{ m['role'] if m['role'] in ['user','assistant','system','tool'] else 'user' }}|>"
    "{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:120]
    tokenizer.train_from_iterator(
        [source.read_text("utf-8", errors="ignore") for source in sources],
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=SPECIAL,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return tokenizer


def make(directory: Path) -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=train(),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.model_max_length = POSITIONS_MAX
    tokenizer.save_pretrained(directory)
    ends = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=POSITIONS_MAX,
        tie_word_embeddings=False,
        **ends,
    )
    config.architectures = ["LlamaForCausalLM"]
    config.dtype = "bfloat16"
    config.save_pretrained(directory)
    (directory / "generation_config.json").write_text(json.dumps(ends), "utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
