"""Names that arguments have in other libraries set what the documented names set."""

import torch
from torch import nn

from torchdeck.data import DistributedBatchIterator, DistributedSampler, build_batch_plan, plan_steps
from torchdeck.distributed import DistributedTrainer


def model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(2, 1)


def test_a_trainer_with_either_spelling_is_the_same() -> None:
    """Options, batch size and the losses that come of them."""
    x = torch.arange(32.0).reshape(16, 2) / 32
    ours = DistributedTrainer(
        model(), loss=nn.MSELoss(), lr=0.1, accumulation=2, clip=0.5, workers=0, strategy="single"
    )
    theirs = DistributedTrainer(
        model(),
        loss=nn.MSELoss(),
        learning_rate=0.1,
        gradient_accumulation_steps=2,
        max_norm=0.5,
        num_workers=0,
        strategy="single",
    )
    with ours, theirs:
        first = ours.fit(x, x[:, :1], epochs=2, microbatch=4)
        second = theirs.fit(x, x[:, :1], epochs=2, batch_size=4)
        assert first.effective_batch_size == second.effective_batch_size == 8
        assert [step.loss for step in first.steps] == [step.loss for step in second.steps]
        assert [step.grad_norm for step in first.steps] == [step.grad_norm for step in second.steps]
        rest = ours.evaluate(x, x[:, :1], microbatch=4)
        assert rest == theirs.evaluate(x, x[:, :1], batch_size=4)
        for trainer in (ours, theirs):
            trainer.model(x).sum().backward()
        clipped = ours.strategy.clip_grad_norm(ours.model, max_norm=0.5)
        assert clipped == theirs.strategy.clip_grad_norm(theirs.model, clip=0.5)
        assert [each.grad.tolist() for each in ours.model.parameters() if each.grad is not None] == [
            each.grad.tolist() for each in theirs.model.parameters() if each.grad is not None
        ]


def test_data_with_either_spelling_is_the_same() -> None:
    """Sampler, batches and the steps of a batch plan."""
    ours = DistributedSampler(10, num_replicas=2, rank=1, seed=3)
    theirs = DistributedSampler(dataset_size=10, world_size=2, rank=1, seed=3)
    assert list(ours) == list(theirs)
    batches = [
        DistributedBatchIterator(ours, batch_size=2),
        DistributedBatchIterator(theirs, microbatch=2),
    ]
    assert [batch.tolist() for batch in batches[0]] == [batch.tolist() for batch in batches[1]]
    plan = build_batch_plan([3, 4, 5, 6, 7, 8], token_budget=8)
    steps = [
        plan_steps(plan, world_size=1, accumulation=2),
        plan_steps(plan, world_size=1, gradient_accumulation_steps=2),
    ]
    assert [step.after for step in steps[0]] == [step.after for step in steps[1]]
