"""The training loop. A step is a function of (seed, step), so a run stopped anywhere ends like one that was not.

    batch t ─ Learner ─▶ loss ─▶ gradient ─▶ clipped ─▶ optimizer ─▶ every so often: validation, checkpoint

Batches depend on the step alone (`batches`), so do learning rates, σ and the phase (`phases`); all that is random in a
step is drawn from (seed, step, process).
"""

from collections.abc import Mapping

import numpy as np
import torch
from lightning.fabric import Fabric
from rich.console import Console

from saccade.data.dataset import ImageDataset
from saccade.evaluation.sureness import as_sure_as_right
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.training.batches import training_loader
from saccade.training.checkpoints import BestModel, resume, save_checkpoint
from saccade.training.evaluations import run_through
from saccade.training.interrupts import Stopped, StopRequest
from saccade.training.learner import Learned, Learner
from saccade.training.machines import check_same_step
from saccade.training.observers import CollapseWatch, Panels, Progress
from saccade.training.optimizers import clip_gradients, make_optimizer, prepare_step
from saccade.training.run_log import RunLog
from saccade.training.tracking import Tracker

LOG_EVERY = 10


def fit(
    fabric: Fabric,
    learner: Learner,
    data: Mapping[str, ImageDataset],
    files: RunFolder,
    facts: Facts,
    console: Console,
    tracker: Tracker,
) -> BestModel:
    """Train from where the run folder is to the last step; raises `Stopped` if somebody asks to stop."""
    model, recipe, plan = learner.model, learner.recipe, learner.plan
    module, fabric_optimizer = fabric.setup(learner, make_optimizer(model, recipe))
    optimizer, precision = fabric_optimizer.optimizer, fabric.strategy.precision
    # Of a tuning that a trial found better the validation images, which are few, do not decide.
    best_by = None if recipe.final or recipe.training.trial else recipe.best_by or model.task.best_by
    best = BestModel(files, best_by)
    watch = CollapseWatch(files, learner)
    parts = {"model": model, "optimizer": optimizer, "precision": precision, "best": best, "watch": watch}
    first = resume(files.checkpoints, parts)
    check_same_step(fabric, first, files)
    if first:
        console.print(f"resuming at step {first} of {files.path}", soft_wrap=True, markup=False)
    progress, panels = Progress(console), Panels(files, learner, data["val"], first=first)
    log, stop = RunLog(files, first, tracker), StopRequest()
    watch.begin(first)

    def save(step: int) -> None:
        if files.writes:
            save_checkpoint(files.checkpoints, step, parts)
        facts.count_seconds()  # of a run that is killed, only what it will train again is left out

    def validate(step: int) -> None:
        progress.begin_validation()
        evaluated = run_through(fabric, model, data["val"], recipe)
        log.add(step, {f"val/{name}": value for name, value in evaluated.measures.items()})
        log.save()
        progress.validated(step, evaluated.measures)
        watch.validated(step, evaluated.predictions, model.task)
        panels.show(step, log.board)
        predictions = evaluated.predictions
        losses = as_sure_as_right(model.task, predictions.logits, predictions.label).losses
        if step == 0:  # a frozen start
            best.begin(model, evaluated.measures, losses)
        else:
            best.keep(model, plan.labeled_step(step), evaluated.measures, losses)

    batches = training_loader(data["train"], recipe, first=first, rank=fabric.global_rank, world=fabric.world_size)
    with stop.listening(), log, progress.training(learner, first):
        if recipe.training.frozen and first == 0:
            validate(0)
        for step, batch in enumerate(batches, first):
            progress.before(step)
            panels.before(step)
            torch.manual_seed(step_seed(recipe.seed, step, fabric.global_rank))
            prepare_step(optimizer, recipe, step)
            learned = module(fabric.to_device(batch), step)
            fabric.backward(learned.loss)
            precision.unscale_gradients(optimizer)
            if step % LOG_EVERY == 0:
                log.add(step, _vitals(learner, learned, optimizer, step))
            watch.before_clipping(step)
            clip_gradients(optimizer, recipe)
            fabric_optimizer.step()
            fabric_optimizer.zero_grad()
            done = step + 1
            progress.after(done, learned)
            watch.after(done, learned)
            panels.after(done)
            validates = done % recipe.leg == 0 or done == plan.total
            if validates:
                validate(done)
            stops = done < plan.total and stop.of_anyone(fabric)
            if validates or stops:
                save(done)
            if stops:
                raise Stopped(f"stopped at step {done}")
    return best


def step_seed(seed: int, step: int, rank: int) -> int:
    """A seed of its own for each step and process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] // 2)


def _vitals(learner: Learner, learned: Learned, optimizer: torch.optim.Optimizer, step: int) -> dict[str, float]:
    """What is logged of a step; the scorer's gradient as it came."""
    vitals = {f"train/{name}": value.item() for name, value in learned._asdict().items() if value is not None}
    names = {"scorer": "lr_scorer", "rest": "lr"}
    vitals |= {names[group["name"]]: group["lr"] for group in optimizer.param_groups}
    if (sigma := learner.sigma(step)) is not None:
        vitals["sigma"] = sigma
    if learner.model.scorer is not None:
        gradients = [p.grad for p in learner.model.scorer.parameters() if p.grad is not None]
        vitals["scorer_gradient"] = float(torch.nn.utils.get_total_norm(gradients))
    return vitals
