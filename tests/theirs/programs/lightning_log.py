"""A validation step is compiled, with `self.log` in it."""

import lightning
import torch
from torch import nn


class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def validation_step(self, batch, index):
        del index
        self.log("score", self.net(batch).mean())


data = torch.utils.data.DataLoader(torch.randn(24, 16), batch_size=8)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
lightning.Trainer(accelerator="cpu", **quiet).validate(torch.compile(Lit(), backend="eager"), data, verbose=False)
