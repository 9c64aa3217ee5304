"""Training loops on diffusers with Accelerate, Lightning Fabric and DeepSpeed. Batches follow from the step.

Each appends its losses to curve.txt. Rank 1 fails after the step in FAILS_AT, if that is set.
"""

_FAILS = """
def fail_after(step, rank):
    if step == int(os.environ.get("FAILS_AT", 0)) and rank == 1 and not os.path.exists("failed"):
        open("failed", "w").close()
        raise RuntimeError("broken here")


def pace(step):
    # Slow down, or hold before the failure, while the test asks for it
    time.sleep(0.4 if os.path.exists("slow") else 0)
    while step == 5 and os.path.exists("hold"):
        time.sleep(0.05)
"""

DIFFUSERS = f"""
import argparse, os, time
import torch
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_scheduler
from tqdm.auto import tqdm
{_FAILS}
parser = argparse.ArgumentParser()
parser.add_argument("--max_train_steps", type=int, required=True)
parser.add_argument("--checkpointing_steps", type=int, default=4)
parser.add_argument("--output_dir", default="out")
parser.add_argument("--resume_from_checkpoint")
args = parser.parse_args()
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
)
noise = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = get_scheduler(
    "cosine", optimizer, num_warmup_steps=2, num_training_steps=2 * args.max_train_steps
)
images = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))
loader = torch.utils.data.DataLoader(images, batch_size=2)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
global_step = 0
if args.resume_from_checkpoint:
    accelerator.load_state(args.resume_from_checkpoint)
    global_step = int(args.resume_from_checkpoint.split("-")[-1])
main = accelerator.is_main_process
bar = tqdm(range(args.max_train_steps), initial=global_step, desc="Steps", disable=not main)
while global_step < args.max_train_steps:
    for clean in loader:
        with accelerator.accumulate(model):
            generator = torch.Generator().manual_seed(global_step)
            sample = torch.randn(clean.shape, generator=generator)
            times = torch.randint(0, 100, (len(clean),), generator=generator)
            out = model(noise.add_noise(clean, sample, times), times).sample
            loss = torch.nn.functional.mse_loss(out, sample)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            bar.update(1)
            global_step += 1
            pace(global_step)
            if main:
                with open("curve.txt", "a") as file:
                    file.write(f"{{global_step}} {{loss.item()!r}} {{scheduler.get_last_lr()[0]!r}}\\n")
                if global_step == args.checkpointing_steps:
                    accelerator.save_state(os.path.join(args.output_dir, f"checkpoint-{{global_step}}"))
            bar.set_postfix(loss=loss.item(), lr=scheduler.get_last_lr()[0])
            accelerator.log({{"train_loss": loss.item()}}, step=global_step)
            fail_after(global_step, accelerator.process_index)
            if global_step >= args.max_train_steps:
                break
accelerator.end_training()
"""

FABRIC = f"""
import argparse, os, time
import torch
from lightning.fabric import Fabric
{_FAILS}
parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int, default=8)
parser.add_argument("--resume", default="")
args = parser.parse_args()
torch.set_num_threads(1)
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
state = {{"model": model, "optimizer": optimizer, "step": 0}}
if args.resume:
    fabric.load(args.resume, state)
for step in range(state["step"] + 1, args.max_steps + 1):
    batch = torch.randn(8, 64, generator=torch.Generator().manual_seed(step))
    loss = (model(batch) - batch).square().mean()
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    fabric.print(f"step {{step}}: loss {{loss.item():.9f}}", flush=True)
    if fabric.global_rank == 0:
        with open("curve.txt", "a") as file:
            file.write(f"{{step}} {{loss.item()!r}}\\n")
    state["step"] = step
    if step % 4 == 0:
        fabric.save(f"out/step-{{step}}.ckpt", state)
    pace(step)
    fail_after(step, fabric.global_rank)
"""

DEEPSPEED = f"""
import argparse, os, time
import deepspeed, torch
{_FAILS}
parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int, default=8)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
torch.set_num_threads(1)
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled; gloo alone does
torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
config = {{
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "steps_per_print": 1000,
    "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01, "torch_adam": True}}}},
    "zero_optimization": {{"stage": 2}},
}}
groups = [{{"params": [model.weight]}}, {{"params": [model.bias], "weight_decay": 0.0}}]
engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
if args.resume:
    engine.load_checkpoint("out")
for step in range(engine.global_steps + 1, args.max_steps + 1):
    for half in (0, 1):
        batch = torch.randn(8, 64, generator=torch.Generator().manual_seed(2 * step + half))
        loss = (engine(batch) - batch).square().mean()
        engine.backward(loss)
        engine.step()
    if engine.global_rank == 0:
        print(f"loss {{loss.item():.9f}}", flush=True)
        with open("curve.txt", "a") as file:
            file.write(f"{{step}} {{loss.item()!r}}\\n")
    if step == 4:
        engine.save_checkpoint("out")
    pace(step)
    fail_after(step, engine.global_rank)
"""
