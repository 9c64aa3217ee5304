"""Supervised fine-tuning with TRL: a tiny Llama made from a config, a tokenizer of bytes, simple sentences.

Replace model, tokenizer and dataset by yours: AutoModelForCausalLM.from_pretrained,
AutoTokenizer.from_pretrained and datasets.load_dataset. All options of SFTConfig are arguments; --lora_rank N
trains LoRA adapters of that rank.
"""

import argparse

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte: nothing to train, nothing to download."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")


def sentences(count: int) -> Dataset:
    sums = ((n % 97, n % 31) for n in range(count))
    return Dataset.from_list([{"text": f"{a} plus {b} is {a + b}."} for a, b in sums])


def main() -> None:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--lora_rank", type=int, default=0)
    given, rest = own.parse_known_args()
    cpu = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    (args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses([*cpu, *rest])

    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    lora = LoraConfig(r=given.lora_rank or 1, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = SFTTrainer(
        model=LlamaForCausalLM(config),
        args=args,
        train_dataset=sentences(2_000),
        eval_dataset=sentences(64),
        processing_class=tokenizer,
        peft_config=lora if given.lora_rank else None,
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
