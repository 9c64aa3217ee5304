"""Text from trained models: of the recipes byte-gpt, byte-finetune and bdh."""
