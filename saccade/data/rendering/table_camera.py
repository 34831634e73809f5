"""A pinhole camera that looks down on a billiard table, and where its rays meet the table's planes.

World coordinates in ball radii: x to the right, y away from the camera, z up; the cloth is z = 0, a resting ball's
center z = 1. With orthonormal right u, up v and forward w, pixel (i, j) looks along  w·f + u·(i − cx) − v·(j − cy).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray


class TableCamera(NamedTuple):
    """Eye, orientation, focal length and principal point in pixels."""

    eye: Float[ndarray, "3"]
    right: Float[ndarray, "3"]
    up: Float[ndarray, "3"]
    forward: Float[ndarray, "3"]
    focal_px: float
    center_px: tuple[float, float]

    def project(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n 3"]:
        """Column, row and depth of points."""
        offset = points - self.eye
        depth = offset @ self.forward
        scale = self.focal_px / depth
        column = self.center_px[0] + offset @ self.right * scale
        return np.stack([column, self.center_px[1] - offset @ self.up * scale, depth], -1)

    def rays(self, columns: ndarray, rows: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Components x, y, z of the rays through pixel places; `columns` and `rows` broadcast."""
        across = (columns - self.center_px[0]).astype(np.float32)
        down = (rows - self.center_px[1]).astype(np.float32)
        x, y, z = (
            np.float32(self.focal_px * w) + np.float32(u) * across - np.float32(v) * down
            for w, u, v in zip(self.forward, self.right, self.up, strict=True)
        )
        return x, y, z

    def on_plane(self, columns: ndarray, rows: ndarray, height: float) -> tuple[ndarray, ndarray]:
        """x and y of where the rays through pixel places meet the plane z = `height`; it must lie below the eye."""
        x, y, z = self.rays(columns, rows)
        # Rays at or above the table's horizon never meet it: they are sent very far away.
        reach = np.float32(height - self.eye[2]) / np.minimum(z, -1e-3 * self.focal_px)
        return np.float32(self.eye[0]) + reach * x, np.float32(self.eye[1]) + reach * y

    def moved(self, right_px: int, down_px: int) -> "TableCamera":
        """The same camera with its picture shifted."""
        return self._replace(center_px=(self.center_px[0] + right_px, self.center_px[1] + down_px))


def look_at(
    target: Float[ndarray, "3"],
    *,
    pitch: float,
    yaw: float,
    distance: float,
    focal_px: float,
    center_px: tuple[float, float],
) -> TableCamera:
    """A camera `distance` away from `target`, looking down at `pitch` and turned by `yaw` (radians)."""
    forward = np.array([np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), -np.sin(pitch)])
    right = np.array([np.cos(yaw), -np.sin(yaw), 0.0])
    return TableCamera(target - distance * forward, right, np.cross(right, forward), forward, focal_px, center_px)
