"""What does Neutrino, the paper's accelerator for its network, cost, and what does its integer arithmetic lose?

- `accuracy`: How much of the network's accuracy does Neutrino's integer arithmetic cost, and which of its narrow numbers costs it?
- `compiler`: Which instructions does a tile execute for one time step of the network, on several sequences at once?
- `cycles`: How many cycles does a tile's static program take, and how busy are its lanes?
- `int8`: What does Neutrino's integer arithmetic make of the network's predictions?
- `machine`: What is Neutrino made of:
"""
