"""Grad-CAM: which places of a frame an action hangs on, for every method alike."""

from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from nsac.lab.driving.errors import DrivingError
from nsac.methods import AbstractMethod
from nsac.models import FrameEncoder


def grad_cam(method: AbstractMethod, x: Tensor, output: int = 0, num_samples: int = 10) -> np.ndarray:
    """How much each place of the newest frame matters for an action, (B, H, W), 0 to 1.

    The last map of the convolutions, weighted by the mean gradient of the predicted mean with respect to each of its
    channels. Both signs count: a left bend pulls an angle down as a right bend pulls it up. Of an ensemble it is the
    mean over its members.

    Args:
        method: fitted, of frames.
        x: (B, S, C, H, W), as the network sees them.
        output: number of the action.
        num_samples: draws of the method.
    """
    try:
        from captum.attr import LayerGradCam
    except ImportError as err:
        raise DrivingError(f"Grad-CAM needs captum ({err}). Install it: `pip install 'nsac[drive]'`.") from None
    encoders = [part for part in method.modules() if isinstance(part, FrameEncoder)]
    if not encoders:
        raise DrivingError(f"Grad-CAM needs convolutions. Method {method.name!r} has none.")

    def act(one: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return method.draws({"x": one}, num_samples, generator).mean.mean(0)[:, output]

    maps = []
    for one in x.split(1):
        each = [cast(Tensor, LayerGradCam(act, encoder.conv).attribute(one))[-1:].abs() for encoder in encoders]
        maps.append(torch.stack([cam / cam.amax().clamp(min=1e-12) for cam in each]).mean(0))
    whole = interpolate(torch.cat(maps).detach(), tuple(x.shape[-2:]), mode="bilinear", align_corners=False)
    return (whole / whole.amax((-2, -1), keepdim=True).clamp(min=1e-12))[:, 0].numpy()
