"""Tensors in the shapes that the serializer's methods take: a tree of modules, and nested dicts and lists.

Both may be unable to say what a specification says. A module tree is used only where the method that writes it would by
itself come to the same names, kinds, order and module indices.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from protocol import Rejected, Unsupported
from specification import Item

# Room in a list for positions without a tensor.
LIST_HOLES_MAX = 1000


def as_module(items: Sequence[Item]) -> torch.nn.Module | None:
    """The module that has these tensors, or None if no module has them so."""
    root = torch.nn.Module()
    try:
        for item in items:
            _register(root, item)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    wanted = [(item.module_index, item.plain_name, item.kind) for item in items]
    return root if list(_members(root)) == wanted else None


def _register(root: torch.nn.Module, item: Item) -> None:
    """Puts one tensor in its place. Raises what torch raises for names that it does not take."""
    if item.plain_name is None:
        raise ValueError("a structured name")
    # The root's own tensors are those whose name begins with a dot.
    module_path, dot, attribute = item.plain_name.rpartition(".")
    if not dot:
        raise ValueError("a name without its module")
    module = root
    for part in module_path.split(".") if module_path else []:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        module = module._modules[part]
    if item.kind == "parameter":
        module.register_parameter(
            attribute, torch.nn.Parameter(item.tensor, requires_grad=False)
        )
    elif item.kind == "buffer":
        module.register_buffer(attribute, item.tensor, persistent=item.persistent)
    else:
        raise ValueError("neither a parameter nor a buffer")


def _members(root: torch.nn.Module) -> Iterator[tuple[int, str, str]]:
    """Module index, name and kind of all tensors, as modules are walked to be written."""
    for index, (module_name, module) in enumerate(root.named_modules()):
        for name, _ in module.named_parameters(recurse=False):
            yield index, f"{module_name}.{name}", "parameter"
        for name, _ in module.named_buffers(recurse=False):
            yield index, f"{module_name}.{name}", "buffer"


def as_state_dict(items: Sequence[Item]) -> Any:
    """Nested dicts and lists with these tensors; None if walking them would not give the order of the items."""
    tree: dict[str | int, Any] = {}
    for item in items:
        if not all(type(component) in (str, int) for component in item.path):
            raise Rejected(f"{item.path} is not made of dict keys and list positions")
        branch = tree
        for component in item.path[:-1]:
            branch = branch.setdefault(component, {})
            if not isinstance(branch, dict):
                raise Rejected(f"{item.path} goes on below another tensor")
        if item.path[-1] in branch:
            raise Rejected(f"{item.path} is there twice, or a prefix of another path")
        branch[item.path[-1]] = item.tensor
    structure = _with_lists(tree)
    # Tensors compare element by element, so it is asked which object each one is.
    walked = [id(tensor) for tensor in _leaves(structure)]
    return structure if walked == [id(item.tensor) for item in items] else None


def _with_lists(branch: dict[str | int, Any]) -> Any:
    """The same with lists for the levels whose keys are integers; an empty dict where a list has no tensor."""
    values = {
        key: _with_lists(value) if isinstance(value, dict) else value
        for key, value in branch.items()
    }
    integers = [key for key in values if isinstance(key, int)]
    if not integers:
        return values
    if len(integers) != len(values):
        raise Rejected("one level has names and list positions")
    length = max(integers) + 1
    if min(integers) < 0:
        raise Rejected("no list has a position below 0")
    if length > len(integers) + LIST_HOLES_MAX:
        raise Unsupported("a list would need too many positions without a tensor")
    return [values.get(position, {}) for position in range(length)]


def _leaves(structure: Any) -> Iterator[torch.Tensor]:
    if isinstance(structure, torch.Tensor):
        yield structure
        return
    for value in structure.values() if isinstance(structure, dict) else structure:
        yield from _leaves(value)
