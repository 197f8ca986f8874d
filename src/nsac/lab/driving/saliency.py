"""Grad-CAM: how much each place of a frame matters for an action, for all methods alike."""

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

    It is the last feature map of the convolutions, weighted by the mean gradient of the predicted mean with respect to
    each of its channels. Absolute values are taken, since a left bend lowers the angle as a right bend raises it. For
    an ensemble it is the mean over the members.

    Args:
        method: fitted, of frames.
        x: (B, S, C, H, W), network inputs.
        output: number of the action.
        num_samples: draws of the method.
    """
    try:
        from captum.attr import LayerGradCam
    except ImportError as err:
        raise DrivingError(f"Grad-CAM needs captum ({err}). Install it: `pip install 'nsac[drive]'`.") from None
    encoders = [module for module in method.modules() if isinstance(module, FrameEncoder)]
    if not encoders:
        raise DrivingError(f"Grad-CAM needs convolutions. Method {method.name!r} has none.")

    def mean_action(row: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return method.draws({"x": row}, num_samples, generator).mean.mean(0)[:, output]

    maps = []
    for row in x.split(1):
        each = [cast(Tensor, LayerGradCam(mean_action, encoder.conv).attribute(row))[-1:].abs() for encoder in encoders]
        maps.append(torch.stack([cam / cam.amax().clamp(min=1e-12) for cam in each]).mean(0))
    enlarged = interpolate(torch.cat(maps).detach(), tuple(x.shape[-2:]), mode="bilinear", align_corners=False)
    return (enlarged / enlarged.amax((-2, -1), keepdim=True).clamp(min=1e-12))[:, 0].numpy()
