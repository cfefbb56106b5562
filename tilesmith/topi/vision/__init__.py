"""Detection of objects: boxes, their regions of images, choosing among them."""

from tilesmith.topi.box_suppression import (
    get_valid_counts,
    hybrid_get_valid_counts,
    hybrid_nms,
    non_max_suppression,
)
from tilesmith.topi.regions import reorg, roi_align_nchw, roi_align_nhwc, roi_pool_nchw
from tilesmith.topi.vision import rcnn, ssd
from tilesmith.topi.vision.all_class import all_class_non_max_suppression
from tilesmith.topi.vision.nms_util import (
    binary_search,
    calculate_overlap,
    collect_selected_indices,
    collect_selected_indices_and_scores,
    run_all_class_nms,
)
from tilesmith.topi.vision.rcnn import proposal
from tilesmith.topi.vision.rearranging import hybrid_rearrange_box_out, hybrid_rearrange_indices_out
from tilesmith.topi.vision.regular import hybrid_regular_nms, regular_non_max_suppression
from tilesmith.topi.vision.ssd import (
    hybrid_multibox_prior,
    hybrid_multibox_transform_loc,
    multibox_detection,
    multibox_prior,
    multibox_transform_loc,
)
