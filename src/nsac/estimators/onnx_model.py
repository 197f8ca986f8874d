"""Graphs as ONNX models: a member is traced once, as a function that is called with the weights of every member."""

from typing import Any

import torch

from nsac.estimators.graph import Graph, Inputs, MemberGraph, OutputGraph

MIN_DRAWS = 3  # fewest draws of the noise that a graph takes
DOMAIN, FUNCTION = "nsac", "member"  # the name of the function
WEIGHTS = "member."  # prefix of the names of the tensors that differ between members


def trace(module: torch.nn.Module, inputs: Inputs, axes: dict[str, dict[int, str]]) -> torch.export.ExportedProgram:
    """The module as a program; `axes` are names of the axes of any size, "rows" and "draws"."""
    sizes = {"rows": torch.export.Dim("rows"), "draws": torch.export.Dim("draws", min=MIN_DRAWS)}
    dynamic = {name: {i: sizes[axis] for i, axis in axes[name].items()} for name in inputs}
    return torch.export.export(module.eval(), (), inputs, dynamic_shapes=dynamic, strict=False)


def input_axes(inputs: Inputs) -> dict[str, dict[int, str]]:
    """The axes of any size of the inputs of `make_graph`."""
    return {name: {0: "draws" if name == "noise" else "rows"} for name in inputs}


def to_onnx(graph: Graph, inputs: Inputs) -> Any:
    """An `onnx_ir.Model` with the outputs of the graph."""
    import onnx_ir as ir

    axes, member = input_axes(inputs), MemberGraph(graph)
    function = _member_function(_translate(trace(member, inputs, axes), optimize=False))
    draws = dict(zip(("mean_draws", "log_std_draws"), member(**inputs), strict=True))
    repeated = {name: torch.cat([each] * len(graph.members)) for name, each in draws.items()}
    axes |= {name: {1: "draws", 2: "rows"} if "noise" in inputs else {2: "rows"} for name in draws}
    given = repeated | {name: value for name, value in inputs.items() if name != "noise"}
    model = _translate(trace(OutputGraph(graph), given, axes), optimize=True)

    known = {value.name: value for value in model.graph.inputs}
    for value in function.inputs:
        if value.name in inputs and value.name not in known:
            known[value.name] = ir.Value(name=value.name, shape=value.shape, type=value.type)
    calls = []
    for k, each in enumerate(graph.members):
        state, arguments = each.state_dict(), []
        for value in function.inputs:
            if value.name in inputs:
                arguments.append(known[value.name])
            else:
                tensor = ir.tensor(state[value.name.removeprefix(WEIGHTS)].contiguous().numpy())
                arguments.append(
                    ir.Value(name=f"{k}.{value.name}", shape=ir.Shape(tensor.numpy().shape), const_value=tensor)
                )
                arguments[-1].dtype = tensor.dtype
                model.graph.register_initializer(arguments[-1])
        calls.append(ir.Node(DOMAIN, FUNCTION, arguments, num_outputs=len(draws)))
    joined = [ir.node("Concat", [call.outputs[i] for call in calls], {"axis": 0}) for i in range(len(draws))]
    for name, node in zip(draws, joined, strict=True):
        ir.convenience.replace_all_uses_with(known.pop(name), node.outputs[0])
    model.graph.insert_before(model.graph[0], [*calls, *joined])
    model.graph.inputs[:] = [known[name] for name in inputs]
    model.functions[function.identifier()] = function
    model.opset_imports[DOMAIN] = 1
    return model


def _translate(program: torch.export.ExportedProgram, optimize: bool) -> Any:
    written = torch.onnx.export(program, dynamo=True, verbose=False, optimize=optimize)
    assert written is not None
    return written.model


def _member_function(model: Any) -> Any:
    """The graph as a function, with the tensors of the member as inputs; other tensors become constants."""
    import onnx_ir as ir
    from onnxscript import optimizer

    graph = model.graph
    for name in [name for name in graph.initializers if name.startswith(WEIGHTS)]:
        value = graph.initializers.pop(name)
        value.const_value = None
        if value.uses():
            graph.inputs.append(value)
    optimizer.optimize(model)
    constants = []
    for name in list(graph.initializers):
        value = graph.initializers.pop(name)
        constants.append(ir.node("Constant", [], {"value": value.const_value}))
        ir.convenience.replace_all_uses_with(value, constants[-1].outputs[0])
    graph.insert_before(graph[0], constants)
    assert not model.functions
    return ir.Function(DOMAIN, FUNCTION, graph=graph, attributes=[])
