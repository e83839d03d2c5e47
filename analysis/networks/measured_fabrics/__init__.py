"""All-reduce on real machines: `model` (protocols, floors, links), `fit` to measured times, `freeze` of the fits with a machine left out,
`tables` of them."""
