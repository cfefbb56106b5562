"""Trains models of the graph: losses, optimizers, and the module and the loop that use them.

mod = relax.training.SetupTrainer(MSELoss(), SGD(0.1), [prediction, target])(backbone)
vm = relax.VirtualMachine(relax.build(mod, "llvm"), cpu())
trainer = relax.training.Trainer(mod, vm, cpu())
loss = trainer.update([x], [y])
"""

from tilesmith.relax.training import loss, optimizer, setup_trainer, trainer, utils
from tilesmith.relax.training.setup_trainer import SetupTrainer
from tilesmith.relax.training.trainer import Trainer
from tilesmith.relax.training.utils import AppendLoss, register_te_gradient

__all__ = [
    "AppendLoss", "SetupTrainer", "Trainer", "loss", "optimizer", "register_te_gradient",
    "setup_trainer", "trainer", "utils",
]  # fmt: skip
