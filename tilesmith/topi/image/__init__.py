"""Operators of images."""

from tilesmith.topi.image.crop_and_resize import crop_and_resize
from tilesmith.topi.image.dilation2d import dilation2d_nchw, dilation2d_nhwc
from tilesmith.topi.image.grid_sample import affine_grid, grid_sample
from tilesmith.topi.image.indices import (
    can_convert_multiply_to_intdiv,
    get_1d_indices,
    get_1d_pixel,
    get_2d_indices,
    get_2d_pixel,
    get_3d_indices,
    get_3d_pixel,
    get_closest_index,
    get_inx,
)
from tilesmith.topi.image.resize import resize1d, resize2d, resize3d
