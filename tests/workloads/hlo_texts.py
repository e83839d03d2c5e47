# ruff: noqa: E501
"""Small StableHLO programs written for the tests, in the forms the StableHLO specification defines."""

import gzip

T = "tensor<4xf32>"


def program(body: str, *, arguments: str = f"%a: {T}", result: str = T, attributes: str = "", more: str = "") -> str:
    """A module with one function @main."""
    return f"module {attributes} {{\n func.func @main({arguments}) -> {result} {{\n{body}\n }}\n{more}\n}}\n"


ADD = "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.add %x, %y : tensor<f32> stablehlo.return %s : tensor<f32> })"
COLLECTIVES = program(
    f"""
  %0 = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64, replica_groups = dense<[[0,1],[2,3]]> : tensor<2x2xi64>}} : (tensor<8x4xf32>) -> tensor<16x4xf32>
  %1 = "stablehlo.reduce_scatter"(%0) {ADD} {{scatter_dimension = 0 : i64, replica_groups = dense<[[0,1],[2,3]]> : tensor<2x2xi64>}} : (tensor<16x4xf32>) -> tensor<8x4xf32>
  %2 = "stablehlo.all_to_all"(%1) {{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64, replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = "stablehlo.collective_permute"(%2) {{source_target_pairs = dense<[[0,1],[1,2],[2,3],[3,0]]> : tensor<4x2xi64>}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = "stablehlo.collective_broadcast"(%3) {{replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %5 = "stablehlo.all_reduce"(%4) {ADD} {{replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %5 : tensor<8x4xf32>""",
    arguments="%a: tensor<8x4xf32>",
    result="tensor<8x4xf32>",
    attributes="attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32}",
)
MESH_AXES = """module @shards {
 sdy.mesh @mesh = <["x"=2, "y"=4]>
 func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x4xf32>) {
    %1 = "stablehlo.all_reduce"(%b) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
     %s = stablehlo.add %x, %y : tensor<f32>
     stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %1 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
 }
}
"""
GSPMD = program(
    f"""
  %0 = stablehlo.custom_call @Sharding(%a) {{mhlo.sharding = "{{devices=[8,1]<=[8]}}"}} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {{mhlo.sharding = "{{manual}}"}} : (tensor<16x4xf32>) -> tensor<2x4xf32>
  %2 = "stablehlo.all_reduce"(%1) {ADD} {{replica_groups = dense<[[0,1,2,3],[4,5,6,7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.custom_call @SPMDShardToFullShape(%2) {{mhlo.sharding = "{{devices=[8,1]<=[8]}}"}} : (tensor<2x4xf32>) -> tensor<16x4xf32>
  return %3 : tensor<16x4xf32>""",
    arguments="%a: tensor<16x4xf32>",
    result="tensor<16x4xf32>",
    attributes="attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}",
)
COUNTED_LOOP = program(
    f"""
  %n = stablehlo.constant dense<12> : tensor<i32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c, %x = %a, %m = %n) : tensor<i32>, {T}, tensor<i32>
  cond {{
    %p = stablehlo.compare LT, %i, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %k = stablehlo.constant dense<5> : tensor<i32>
    %j = stablehlo.add %i, %k : tensor<i32>
    %y = stablehlo.sine %x : {T}
    stablehlo.return %j, %y, %m : tensor<i32>, {T}, tensor<i32>
  }}
  return %0#1 : {T}"""
)
DATA_LOOP = COUNTED_LOOP.replace("%n = stablehlo.constant dense<12> : tensor<i32>", "").replace(
    "%a: tensor<4xf32>", "%a: tensor<4xf32>, %n: tensor<i32>"
)
CHANGING_LOOP = COUNTED_LOOP.replace(
    "%j = stablehlo.add %i, %k", "%two = stablehlo.add %i, %i : tensor<i32>\n    %j = stablehlo.add %two, %k"
)
COMPOSITE = program(
    f'  %0 = stablehlo.composite "my.op" %a {{decomposition = @parts}} : ({T}) -> {T}\n  return %0 : {T}',
    more=f" func.func private @parts(%a: {T}) -> {T} {{\n  %0 = stablehlo.sine %a : {T}\n  %1 = stablehlo.add %0, %a : {T}\n  return %1 : {T}\n }}",
)
STRANGE = program(
    f'  %0 = "foo.bar"(%a) {{x = 1}} : ({T}) -> {T}\n  %1 = stablehlo.custom_call @mine(%0) : ({T}) -> {T}\n  return %1 : {T}'
)
DYNAMIC = program(
    "  %0 = stablehlo.abs %a : tensor<?x4xf32>\n  return %0 : tensor<?x4xf32>", arguments="%a: tensor<?x4xf32>", result="tensor<?x4xf32>"
)
REFINED = program(
    "  %s = stablehlo.constant dense<[6, 4]> : tensor<2xi32>\n"
    "  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<24xf32>, tensor<2xi32>) -> tensor<?x4xf32>\n"
    "  %1 = stablehlo.add %0, %0 : tensor<?x4xf32>\n  return %1 : tensor<?x4xf32>",
    arguments="%a: tensor<24xf32>",
    result="tensor<?x4xf32>",
)
QUANTISED = program(
    "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6x!quant.uniform<i8<-128:127>:f32, 0.5:2>>,"
    " tensor<6x8x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x8x!quant.uniform<i32:f32, 0.25>>\n"
    "  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x8x!quant.uniform<i32:f32, 0.25>>) -> tensor<4x8xf32>\n  return %1 : tensor<4x8xf32>",
    arguments="%a: tensor<4x6x!quant.uniform<i8<-128:127>:f32, 0.5:2>>, %b: tensor<6x8x!quant.uniform<i8:f32, 0.5>>",
    result="tensor<4x8xf32>",
)
CHECKED = """func.func @main() {
  %a = stablehlo.constant dense<[[1.0, 2.0],
     [3.0, 4.0]]> : tensor<2x2xf32>
  %r = stablehlo.sine %a : tensor<2x2xf32>
  check.expect_almost_eq_const %r, dense<[[0.1, 0.2],
     [0.3, 0.4]]> : tensor<2x2xf32>
  func.return
}
"""
TOKENS = program(
    '  %0 = "stablehlo.outfeed"(%a, %t) {outfeed_config = ""} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token\n'
    "  %1 = stablehlo.after_all %0, %t : !stablehlo.token\n  return %1 : !stablehlo.token",
    arguments="%a: tensor<4xf32>, %t: !stablehlo.token",
    result="!stablehlo.token",
)
EINSUM = program(
    '  %0 = "stablehlo.einsum"(%a, %b) {einsum_config = "ij,jk->ik"} : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>\n'
    "  return %0 : tensor<4x6xf32>",
    arguments="%a: tensor<4x5xf32>, %b: tensor<5x6xf32>",
    result="tensor<4x6xf32>",
)


def broken() -> dict[str, tuple[bytes, str]]:
    """Files that are no programs, and a part of the one line that must be said of each."""
    plain = f"func.func @main(%a: {T}) -> {T} {{ return %a : {T} }}"
    chain = f"func.func private @f0(%a: {T}) -> {T} {{ return %a : {T} }}\n" + "".join(
        f"func.func private @f{k}(%a: {T}) -> {T} {{ %0 = func.call @f{k - 1}(%a) : ({T}) -> {T} %1 = func.call @f{k - 1}(%0) : ({T}) -> {T}"
        f" return %1 : {T} }}\n"
        for k in range(1, 40)
    )
    return {
        "empty": (b"", "no function with a body"),
        "comment": (b"// nothing\n", "no function with a body"),
        "noise": (bytes((7 * k * k + 31 * k) % 251 for k in range(4000)), "is not a StableHLO program"),
        "bytecode of noise": (b"ML\xefR" + bytes((7 * k * k + 31 * k) % 251 for k in range(4000)), "is not a StableHLO program"),
        "artifact of noise": (b"ML\xefR\rStableHLO_v1.0.0\x00" + bytes(range(256)), "is not a StableHLO program"),
        "cut off while packed": (gzip.compress(plain.encode())[:-12], "cannot be unpacked"),
        "not defined": (plain.replace("return %a", "return %b").encode(), "undeclared SSA value"),
        "wrong result": (plain.replace("-> tensor<4xf32>", "-> tensor<5xf32>").encode(), "result type"),
        "another dialect": (b"func.func @main() { linalg.fill }", "linalg"),
        "no body": (f"func.func private @main(%a: {T}) -> {T}".encode(), "no function with a body"),
        "no main": ((plain.replace("@main", "@f") + "\n" + plain.replace("@main", "@g")).encode(), "choose with --entry: f, g"),
        "split": ((plain + "\n// -----\n" + plain).encode(), "choose with --part"),
        "recursion": (f"func.func @main(%a: {T}) -> {T} {{ %0 = func.call @main(%a) : ({T}) -> {T} return %0 : {T} }}".encode(), "calls itself"),
        "too deep": (b"func.func @main() attributes {a = " + b"[" * 200_000 + b"]" * 200_000 + b"} { return }", "brings the parser down"),
        "doubling calls": (
            (chain + f"func.func @main(%a: {T}) -> {T} {{ %0 = func.call @f39(%a) : ({T}) -> {T} return %0 : {T} }}").encode(),
            "operators once its calls are taken apart",
        ),
    }  # fmt: skip


# A rotary embedding as complex numbers: the dense complex constant that the bindings have no class for; and one of equal elements.
COMPLEX_CONSTANT = program(
    """  %c = stablehlo.constant dense<[[(1.0,0.0), (0.5,0.8)], [(-0.4,0.9), (0.9,0.1)]]> : tensor<2x2xcomplex<f32>>
  %s = stablehlo.constant dense<(2.0,1.0)> : tensor<2x2xcomplex<f32>>
  %o = stablehlo.constant dense<(0.5,0.5)> : tensor<complex<f32>>
  %0 = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<2x2xcomplex<f32>>) -> tensor<3x2x2xcomplex<f32>>
  %1 = stablehlo.multiply %a, %0 : tensor<3x2x2xcomplex<f32>>
  %2 = stablehlo.broadcast_in_dim %s, dims = [1, 2] : (tensor<2x2xcomplex<f32>>) -> tensor<3x2x2xcomplex<f32>>
  %3 = stablehlo.subtract %1, %2 : tensor<3x2x2xcomplex<f32>>
  %4 = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<complex<f32>>) -> tensor<3x2x2xcomplex<f32>>
  %5 = stablehlo.subtract %3, %4 : tensor<3x2x2xcomplex<f32>>
  %6 = stablehlo.real %5 : (tensor<3x2x2xcomplex<f32>>) -> tensor<3x2x2xf32>
  return %6 : tensor<3x2x2xf32>""",
    arguments="%a: tensor<3x2x2xcomplex<f32>>",
    result="tensor<3x2x2xf32>",
)
QUANTISED_SUM = program(
    "  %0 = stablehlo.add %a, %a : tensor<4x!quant.uniform<i8:f32, 0.5:2>>\n  return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:2>>",
    arguments="%a: tensor<4x!quant.uniform<i8:f32, 0.5:2>>",
    result="tensor<4x!quant.uniform<i8:f32, 0.5:2>>",
)
