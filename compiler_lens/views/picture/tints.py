"""What kind of work a box does: its colour, and its words in the legend."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from compiler_lens.facts.graphs.level_tree import GroupKind
from compiler_lens.facts.graphs.levels import Box, BoxKind
from compiler_lens.views.words import op_name


class Tint(Enum):
    """What kind of work a box does; its colour, and its words in the legend."""

    MATRIX = "matrix product, convolution, attention"
    REDUCTION = "reduction, normalisation"
    POINTWISE = "pointwise"
    VIEW = "view: moves no data"
    COPY = "copy, cast, gather"
    RANDOM = "random"
    OTHER = "other"
    MODULE = "module or line, opens"
    KERNEL = "kernel"
    INPUT = "input"
    OUTPUT = "output"


# By the op's plain name; what is in none of them is pointwise.
_OPS: Mapping[Tint, str] = {
    Tint.MATRIX: """
        mm addmm bmm baddbmm matmul linear bilinear einsum dot mv addmv addbmm conv1d conv2d conv3d convolution
        convolution_backward conv_transpose1d conv_transpose2d conv_transpose3d _scaled_mm _grouped_mm lstm gru """,
    Tint.REDUCTION: """
        sum mean var std var_mean std_mean amax amin max min argmax argmin prod all any norm softmax _softmax
        _safe_softmax log_softmax _log_softmax logsumexp layer_norm native_layer_norm group_norm batch_norm rms_norm
        cumsum native_group_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm
        native_batch_norm cross_entropy nll_loss nll_loss_forward nll_loss_backward mse_loss topk sort
        native_layer_norm_backward native_group_norm_backward native_batch_norm_backward _softmax_backward_data
        _log_softmax_backward_data max_pool2d avg_pool2d adaptive_avg_pool2d max_pool2d_with_indices _fused_rms_norm
        linalg_vector_norm """,
    Tint.VIEW: """
        view reshape permute transpose t T mT expand select slice narrow squeeze unsqueeze split chunk unbind
        getitem flatten unflatten as_strided detach alias diagonal movedim view_as expand_as split_with_sizes
        broadcast_in_dim _unsafe_view broadcast_to size sym_size """,
    Tint.COPY: """
        clone contiguous _to_copy to convert_element_type copy copy_ cat stack embedding index gather scatter
        index_select index_put index_put_ slice_scatter select_scatter scatter_add embedding_dense_backward
        constant_pad_nd pad repeat roll flip float half bfloat16 type device_put full zeros ones arange empty
        full_like zeros_like ones_like new_zeros tensor scalar_tensor iota lift_fresh_copy """,
    Tint.RANDOM: """
        dropout native_dropout native_dropout_backward rand randn bernoulli rand_like randn_like randint multinomial
        uniform normal inductor_random inductor_seeds inductor_lookup_seed """,
}


_BY_NAME = {name: each for each, names in _OPS.items() for name in names.split()}


def tint(box: Box) -> Tint:
    """Return the kind of work that a box does."""
    if box.kind is BoxKind.INPUT:
        return Tint.INPUT
    if box.kind is BoxKind.OUTPUT:
        return Tint.OUTPUT
    if box.group:
        return Tint.KERNEL if box.group.kind is GroupKind.KERNEL else Tint.MODULE
    node = box.nodes[0]
    known = work(node.target)
    # What neither reads nor makes a tensor only sets something: a mode, a level of vmap.
    return Tint.OTHER if known is Tint.POINTWISE and not node.inputs and not node.specs else known


def work(target: str) -> Tint:
    """Return the kind of work of an op."""
    name = op_name(target).rpartition(".")[2]
    if "attention" in name:
        return Tint.MATRIX
    if "higher_order" in target or target.startswith("torch.ops._c10d"):
        return Tint.OTHER
    return _BY_NAME.get(name, Tint.POINTWISE)
