// A StableHLO program:   howfast hlo predict step.mlir --device h100
// From JAX, of a function of one's own, from shapes alone:
//   print(jax.jit(f).lower(jax.ShapeDtypeStruct((64, 1024), "bfloat16"), ...).as_text())
module @step {
  func.func public @main(%x: tensor<64x1024xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<64x4096xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<64x4096xbf16>
    %1 = stablehlo.tanh %0 : tensor<64x4096xbf16>
    return %1 : tensor<64x4096xbf16>
  }
}
